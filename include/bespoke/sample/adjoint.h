#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "bespoke/model/model.h"
#include "bespoke/run/counts.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// One evaluation as backpropagation sees it: u(t, x) with x [batch, ...] and t [batch] leaves.
struct RecordedStep {
  torch::Tensor x, t, u;
};

// A run of a solver, kept for the sweep back: x_0 ... x_n and u_0 ... u_{n-1} without gradients,
// and the graphs of the evaluations.
struct Trajectory {
  NsSolver solver;
  std::vector<torch::Tensor> x, u;
  std::vector<RecordedStep> recorded;
};

// Runs `solver`, which may not have built-in guidance, as sample() does. The state is float32 or
// float64, as x0 is. Throws (diverged) if it stops being finite.
Trajectory run_trajectory(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                          const Conditions& conditions, Counts* counts);

// For a cotangent lambda at x_n [batch, ...] and each sample, the gradient of <lambda, x_n> with
// respect to the solver's coefficients, in the order of coefficients_of: [batch, coefficients]
// float64 on the CPU. Backwards from lambda_n,
//   d a_i = <lambda_{i+1}, x_0>,  d b_ij = <lambda_{i+1}, u_j>,
//   d start_scale = <lambda_0 + sum_i a_i lambda_{i+1}, x_0> / start_scale,
//   (lambda_i, d t_i) = VJP of u at (x_i, t_i) with mu_i = sum_{k >= i} b_ki lambda_{k+1}.
// t_n has no effect and a gradient of zero. On the CPU the bits depend neither on the batch nor on
// the number of threads, as far as those of the field's own VJP do not. The graphs are used up.
torch::Tensor sweep_back(Trajectory trajectory, const torch::Tensor& cotangent, Counts* counts);

}  // namespace bespoke
