#include "bespoke/sample/repeated_sampler.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <numeric>
#include <utility>

#include "bespoke/run/solver_run.h"
#include "bespoke/sample/tensor_field.h"
#include "bespoke/tensor/pending_states.h"
#include "bespoke/tensor/recording.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

namespace {

bool is_finite(const torch::Tensor& x) { return torch::isfinite(x).all().item<bool>(); }

}  // namespace

RepeatedSampler::RepeatedSampler(NsSolver solver, const Field& field, torch::Device device,
                                 const std::function<void(const std::string&)>& on_note)
    : RepeatedSampler(std::move(solver), field,
                      device.is_cuda() && field.can_be_recorded() ? cuda_graph_recorder() : nullptr,
                      on_note) {}

RepeatedSampler::RepeatedSampler(NsSolver solver, const Field& field, CallRecorder recorder,
                                 const std::function<void(const std::string&)>& on_note)
    : solver_(std::move(solver)), field_(field) {
  if (!recorder) return;
  graphs_ = std::make_unique<CallGraphs>(std::move(recorder), [on_note](const std::string& why) {
    if (!on_note) return;
    on_note(fmt::format("whole samples cannot be run as CUDA graphs ({}), single calls are", why));
  });
}

torch::Tensor RepeatedSampler::sample(const torch::Tensor& x0, const Conditions& conditions,
                                      const StepCallback& on_step, int64_t first_sample) {
  // Where the network could not be recorded, nor can what is made of its calls.
  if (graphs_ && graphs_->records() && field_.can_be_recorded()) {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> arguments = {solver_.start_scale * noise_state(x0)};
    for (const auto& [name, values] : conditions) arguments.push_back(values);
    coefficients_for(arguments.front());  // before a recording, which may not send them
    torch::Tensor x = graphs_->call(arguments, [&](const std::vector<torch::Tensor>& given) {
      return run(given, conditions, on_step);
    });
    if (is_finite(x)) return x;
  }
  return bespoke::sample(solver_, field_, x0, conditions, on_step, first_sample);
}

torch::Tensor RepeatedSampler::run(const std::vector<torch::Tensor>& arguments,
                                   const Conditions& conditions, const StepCallback& on_step) {
  Conditions given;
  size_t next = 1;
  for (const auto& entry : conditions) given[entry.first] = arguments[next++];
  const torch::Tensor& start = arguments.front();
  PendingStates states(solver_, coefficients_for(start), start);
  std::vector<int64_t> rows(static_cast<size_t>(start.size(0)));
  std::iota(rows.begin(), rows.end(), 0);
  const std::shared_ptr<const Field> borrowed(&field_, [](const Field*) {});
  Counts unused;
  run_steps(*tensor_field(borrowed, given), solver_, array_of(start), rows, states, &unused,
            is_recording() ? nullptr : each_step(solver_, on_step));
  return tensor_of(states.state(solver_.a.size() - 1)).clone();
}

const torch::Tensor& RepeatedSampler::coefficients_for(const torch::Tensor& start) {
  const bool there = coefficients_.defined() && coefficients_.device() == start.device() &&
                     coefficients_.scalar_type() == start.scalar_type();
  if (!there) {
    coefficients_ = pending_coefficients(solver_, start.device(), start.scalar_type());
  }
  return coefficients_;
}

}  // namespace bespoke
