#include "bespoke/sample/in_batches.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/sample/sampler.h"

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

}  // namespace

ReferenceResult reference_in_batches(const ModelPtr& model, const torch::Tensor& x0,
                                     const Conditions& conditions, const Tolerances& tolerances,
                                     const Batching& batching, int64_t trajectories) {
  ReferenceOptions options;
  options.tolerances = tolerances;
  options.on_given_up = batching.on_given_up;
  std::vector<torch::Tensor> samples, evaluations;
  DenseTrajectories recorded;
  in_fitting_batches(x0.size(0), batching, [&](int64_t begin, int64_t end, const auto& report) {
    options.first_sample = batching.first_sample + begin;
    options.record = std::max(int64_t{0}, trajectories - begin);
    options.on_progress = report;
    ReferenceResult part =
        reference(model, x0.slice(0, begin, end), slice(conditions, begin, end), options);
    samples.push_back(part.x.cpu());
    evaluations.push_back(part.evaluations.cpu());
    recorded.append(std::move(part.trajectories));
  });
  return {torch::cat(samples), torch::cat(evaluations), std::move(recorded)};
}

torch::Tensor sample_in_batches(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                                const Conditions& conditions, const Batching& batching) {
  std::vector<torch::Tensor> samples;
  in_fitting_batches(x0.size(0), batching, [&](int64_t begin, int64_t end, const auto& report) {
    const auto on_step = [&](const StepInfo& info) { report((info.step + 1.0) / solver.nfe()); };
    samples.push_back(sample(solver, field, x0.slice(0, begin, end), slice(conditions, begin, end),
                             on_step, batching.first_sample + begin)
                          .to(torch::kCPU));
  });
  return torch::cat(samples);
}

}  // namespace bespoke
