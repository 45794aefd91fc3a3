#include "bespoke/sample/in_batches.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/repeated_sampler.h"
#include "bespoke/tensor/tensor_bytes.h"

namespace bespoke {

using namespace detail;

namespace {

// work(begin, end, report) over all samples.
template <class Work>
void in_fitting_batches(int64_t count, const Batching& batching, Work work) {
  int64_t batch = batching.batch;
  for (int64_t begin = 0; begin < count; begin += batch) {
    batch = within_memory(std::min(batch, count - begin), batching.on_less, [&](int64_t size) {
      const auto report = [&](double done) {
        if (!batching.on_progress) return;
        batching.on_progress((static_cast<double>(begin) + done * static_cast<double>(size)) /
                             static_cast<double>(count));
      };
      work(begin, begin + size, report);
      return size;
    });
  }
}

torch::Tensor own_samples(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                          const Conditions& conditions, const Batching& batching) {
  if (x0.size(0) == 0) return x0.cpu();
  RepeatedSampler sampler(solver, field, x0.device(), batching.on_note);
  std::vector<torch::Tensor> samples;
  in_fitting_batches(x0.size(0), batching, [&](int64_t begin, int64_t end, const auto& report) {
    const auto on_step = [&](const StepInfo& info) { report((info.step + 1.0) / solver.nfe()); };
    samples.push_back(sampler
                          .sample(x0.slice(0, begin, end),
                                  conditions_on(slice(conditions, begin, end), x0.device()),
                                  on_step, batching.first_sample + begin)
                          .to(torch::kCPU));
    report(1);
  });
  return torch::cat(samples);
}

// The batches of a member.
Batching batching_of(const Share& share, const Batching& all) {
  Batching batching = all;
  batching.first_sample += share.begin;
  return batching;
}

}  // namespace

ReferenceResult reference_in_batches(const ModelPtr& model, const torch::Tensor& x0,
                                     const Conditions& conditions, const Tolerances& tolerances,
                                     const Batching& batching, int64_t trajectories,
                                     int64_t fixed_evaluations) {
  ReferenceOptions options;
  options.tolerances = tolerances;
  options.fixed_evaluations = fixed_evaluations;
  options.first_sample = batching.first_sample;
  options.on_progress = batching.on_progress;
  options.batch = batching.batch;
  options.on_less = batching.on_less;
  options.record = trajectories;
  options.on_given_up = batching.on_given_up;
  return reference(model, x0, conditions, options, *batching.team);
}

torch::Tensor sample_in_batches(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                                const Conditions& conditions, const Batching& batching) {
  Team& team = *batching.team;
  if (team.size() == 1) return own_samples(solver, field, x0, conditions, batching);
  const Share share = share_of(x0.size(0), team);
  const auto all = exchange_work(team, [&] {
    return tensor_bytes(
        {own_samples(solver, field, x0.slice(0, share.begin, share.end),
                     slice(conditions, share.begin, share.end), batching_of(share, batching))});
  });
  std::vector<torch::Tensor> samples;
  for (const std::string& bytes : all) samples.push_back(tensors_of(bytes).front());
  return torch::cat(samples);
}

}  // namespace bespoke
