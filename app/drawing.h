#pragma once

#include <cstdint>

#include "bespoke/solver/ns_solver.h"
#include "start_options.h"

namespace bespoke {

// Samples and what each cost.
struct Drawing {
  torch::Tensor samples;
  double evaluations;  // mean per sample
};

// All samples of `start` in batches, with a progress bar. A batch that does not fit the memory is
// tried again at half its size, and so are those after it.
Drawing draw_with_reference(const Start& start, double tolerance, int64_t batch);
Drawing draw_with_solver(const Start& start, const NsSolver& solver, int64_t batch);

}  // namespace bespoke
