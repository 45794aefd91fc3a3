#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bespoke/sample/reference.h"

namespace bespoke::detail {

// Where the samples of a run begin, made as they are needed.
struct StartStates {
  std::vector<int64_t> shape;  // [count, ...]
  // [end - begin, ...] float64, where the field computes.
  std::function<torch::Tensor(int64_t begin, int64_t end)> states;
  torch::ScalarType kept_type;  // of trajectories

  int64_t count() const { return shape.front(); }
};

struct AdaptiveResult {
  torch::Tensor x, evaluations;      // on the CPU
  std::vector<RecordedSteps> steps;  // of the samples that options.record asks for
};

// integrate_adaptive, with the steps as they were taken.
AdaptiveResult run_adaptive(const Field& field, const StartStates& starts,
                            const Conditions& conditions, const ReferenceOptions& options);

// The type trajectories are kept in: float64 for float64 noise, float32 for all other.
torch::ScalarType kept_type(const torch::Tensor& x0);

}  // namespace bespoke::detail
