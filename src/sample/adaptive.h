#pragma once

#include <vector>

#include "bespoke/sample/reference.h"

namespace bespoke::detail {

struct AdaptiveResult {
  torch::Tensor x, evaluations;
  std::vector<RecordedSteps> steps;  // of the samples that options.record asks for
};

// integrate_adaptive, with the steps as they were taken, kept in this type.
AdaptiveResult run_adaptive(const Field& field, const torch::Tensor& x0,
                            const Conditions& conditions, const ReferenceOptions& options,
                            torch::ScalarType kept_type);

// The type trajectories are kept in: float64 for float64 noise, float32 for all other.
torch::ScalarType kept_type(const torch::Tensor& x0);

}  // namespace bespoke::detail
