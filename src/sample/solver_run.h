#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "bespoke/solver/ns_solver.h"

namespace bespoke::detail {

// x_0 for noise: float32 or float64, as the noise is, scaled as the solver says.
torch::Tensor start_state(const NsSolver& solver, const torch::Tensor& noise);

// The velocity as a run keeps it: of the state's shape, without its graph, and a tensor of its own.
torch::Tensor kept_velocity(const torch::Tensor& u, const torch::Tensor& x);

// Throws (diverged) with the step, time and sample named.
[[noreturn]] void report_not_finite(const NsSolver& solver, size_t step, const torch::Tensor& u,
                                    const torch::Tensor& x, int64_t first_sample);

// x_{i+1} into `next`, from x_0, u_0 ... u_i and the differences so far. Whether it is finite.
bool combine_step(const NsSolver& solver, size_t step, const torch::Tensor& start,
                  const std::vector<torch::Tensor>& velocities,
                  const std::vector<torch::Tensor>& differences, torch::Tensor& next);

}  // namespace bespoke::detail
