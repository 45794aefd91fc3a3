#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "bespoke/recipe/tensor_objective.h"

namespace bespoke::detail {

// How x_n of a run changes for a unit of each number changed, [changes, samples, ...], by runs with
// one number changed a little in each. The field gets them in few, even batches of at most so many
// rows, or of all samples for one change. Throws (diverged) where one is not finite.
torch::Tensor changes_of_end(const NsSolver& solver, const PlainRun& run,
                             const std::vector<Change>& changes, const Field& field,
                             int64_t most_rows, Counts* counts);

// Root mean squares of each row of samples, [..., samples] float64 on the CPU, to divide by; x is
// [..., samples, numbers...], with `leading` dimensions before the numbers.
torch::Tensor root_mean_squares(const torch::Tensor& x, int64_t leading);

}  // namespace bespoke::detail
