#include "bespoke/sample/repeated_sampler.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

#include "bespoke/sample/pending_states.h"
#include "bespoke/tensor/recording.h"
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
    std::vector<torch::Tensor> arguments = {start_state(solver_, x0)};
    for (const auto& [name, values] : conditions) arguments.push_back(values);
    coefficients_for(arguments.front());  // before a recording, which may not send them
    const torch::Tensor x = graphs_->call(arguments, [&](const std::vector<torch::Tensor>& given) {
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
  const PendingStates states =
      run_pending(solver_, coefficients_for(arguments.front()), field_, arguments.front(), given,
                  is_recording() ? StepCallback() : on_step);
  return states.state(solver_.a.size() - 1).clone();
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
