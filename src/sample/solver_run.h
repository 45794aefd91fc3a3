#pragma once

#include <torch/types.h>

#include "bespoke/run/solver_run.h"
#include "bespoke/sample/sampler.h"

namespace bespoke::detail {

// Noise as samplers have states: float32 or float64, as it is.
torch::Tensor noise_state(const torch::Tensor& noise);

// The velocity as a run keeps it: of the state's shape, without its graph, and a tensor of its own.
torch::Tensor kept_velocity(const torch::Tensor& u, const torch::Tensor& x);

// What tells of a run's steps as sample() does; null where nobody listens.
SolverStepCallback each_step(const NsSolver& solver, const StepCallback& on_step);

}  // namespace bespoke::detail
