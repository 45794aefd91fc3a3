#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/run/samples.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A solver without gradients and without iteration. With its times fixed, every step follows in
// closed form from the true trajectories x(t) of some samples:
//   start_scale  least squares of x(t_0) on the noise
//   step i       u_i = u(t_i, x_i) at the solver's own state, so that its errors so far are seen;
//                (a_i, b_i0 ... b_ii) least squares of a_i x_0 + sum_j b_ij u_j on x(t_{i+1}), with
//                samples weighed so that no hard one rules; with built-in guidance the sum has
//                c_ij d_j too
//   last step    the least mean log error of x_n, which is what solvers are measured by, with the
//                floor below
// It costs n evaluations per sample, or the network calls of its shape.
struct FitOptions {
  // The floor under |r|^2, in parts of its geometric mean in the last step, and of its mean in
  // those before.
  double smoothing = 0.05;
  bool free_start_scale = true;
  double start_scale = 1;        // where it is not free: the noise is taken as it is
  std::vector<int> guided = {};  // steps that have d_j, of a solver with built-in guidance
};

struct FittedSolver {
  NsSolver solver;
  double loss;                     // the mean log error on the samples, without the floor
  std::vector<double> log_errors;  // of each
  LinearModel last_step;           // what it could do: residual -x(1)
};

// An estimate of the error on samples that the fit has not seen, from these alone: the mean log
// error of each by a last step fitted to the others. No evaluations; needs two samples.
double left_out_loss(const FittedSolver& fitted, double smoothing);

// Fits a solver on the times t_0 ... t_n, where t_n = 1. Bad input where a step has more unknowns
// than the samples have numbers; an Error (diverged) where a step cannot be solved or the model is
// not finite.
FittedSolver fit_solver(const Samples& samples, const std::vector<int64_t>& subset,
                        const std::vector<double>& times, const FitOptions& options,
                        Counts* counts);

}  // namespace bespoke
