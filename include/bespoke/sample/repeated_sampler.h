#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bespoke/model/call_graphs.h"
#include "bespoke/sample/sampler.h"

namespace bespoke {

// Does what sample() does for batch after batch of one solver on one field. On a GPU a batch size
// that recurs is recorded whole, all steps as one CUDA graph, where the field can be: then a sample
// costs what the network's kernels cost and nothing between them.
class RepeatedSampler {
 public:
  // The field must outlive it. `on_note` is told, once, where samples cannot be recorded.
  RepeatedSampler(NsSolver solver, const Field& field, torch::Device device,
                  const std::function<void(const std::string& note)>& on_note = nullptr);
  // The same with another way to record, on any device; none where it is null.
  RepeatedSampler(NsSolver solver, const Field& field, CallRecorder recorder,
                  const std::function<void(const std::string& note)>& on_note = nullptr);

  // Draws a batch as sample() does; nobody is told the steps of a batch that is replayed.
  torch::Tensor sample(const torch::Tensor& x0, const Conditions& conditions = {},
                       const StepCallback& on_step = nullptr, int64_t first_sample = 0);

 private:
  // Takes all steps on {x_0, conditions in the order of their names ...}.
  torch::Tensor run(const std::vector<torch::Tensor>& arguments, const Conditions& conditions,
                    const StepCallback& on_step);
  const torch::Tensor& coefficients_for(const torch::Tensor& start);

  NsSolver solver_;
  const Field& field_;
  std::unique_ptr<CallGraphs> graphs_;  // null where nothing is recorded
  torch::Tensor coefficients_;
};

}  // namespace bespoke
