#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/distill/gauss_newton.h"
#include "bespoke/distill/objective.h"

namespace bespoke {

// Gauss-Newton on the mean log error with the whole Jacobian of x_n, by differences, on a few
// samples: no gradient of the model. Every coefficient and time is changed in turn; a change in
// step i costs the evaluations after it alone, and the columns of the last step are x_0 and u_j
// themselves. An iteration puts the last step where it is best, moves theta by
//   -(H + damping diag H)^-1 g
// and keeps the move if it lowers the loss on its samples with the last step refitted.
struct DirectOptions {
  // Samples of an iteration; 0 takes 16, or more where they are small: eight numbers a parameter.
  int64_t batch = 0;
  double averaging = 0.7;   // H is averaged over iterations, each weighing this much of the next
  double smoothing = 0.05;  // the floor under |r|^2, of its geometric mean
  double damping = 1e-3;    // at the start
  double shrink = 10, grow = 4;  // of the damping, after success and failure
  int attempts = 3;              // dampings tried on one batch
  // How far a coefficient moves the state after its step, of the state's root mean square: what
  // suits float32; a model that answers less precisely needs more. And how far a time is moved to
  // either side, of the smaller gap beside it: networks ripple in t, and wide differences see past
  // the ripples (docs/experiments.md).
  double difference = 2e-3;
  double time_difference = 0.2;
};

// The changes that make up the Jacobian of a solver: all of its coefficients that are not of the
// last step; times to both sides, where there is room.
std::vector<Change> jacobian_changes(const NsSolver& solver, const DirectOptions& options);

// Evaluations a sample that linearising by these changes costs, the run itself included.
int64_t evaluations_of(const std::vector<Change>& changes, int nfe);

// One iteration on theta, on these samples. Returns the loss on them before it, as it was.
double direct_iteration(const Objective& objective, const Family& family,
                        const DirectOptions& options, const std::vector<int64_t>& batch,
                        GaussNewtonState& state, std::vector<double>& theta, Counts* counts);

}  // namespace bespoke
