#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/distill/gauss_newton.h"
#include "bespoke/distill/objective.h"

namespace bespoke {

// The Gauss-Newton method of Levenberg and Marquardt on the mean log error, with the last step
// eliminated. An iteration draws a batch, puts the last step where it is best on it (x_n is linear
// in it, so that needs no evaluation of the model; only where the family leaves the last step free
// and there is no decoder), and moves theta by
//   -(H + damping diag H)^-1 g.
// The move is kept if it lowers the loss on the batch, with the last step put where it is best
// again: a step far beyond where the first order holds is saved by it. The damping follows how well
// the move did.
struct LmOptions {
  int64_t batch = 128;
  int probes = 1;          // random sign vectors per sample that estimate H
  double averaging = 0.5;  // H is averaged over iterations, each weighing this much of the next
  // The loss it lowers is the mean of log(|r|^2 + floor), with the floor this part of the batch's
  // geometric mean of |r|^2. The plain logarithm rewards fitting single samples exactly, and such a
  // sample's weight, 1 / |r|^2, then holds the solver where it is.
  double smoothing = 0.05;
  double damping = 1e-3;  // at the start
  double shrink = 10;     // of the damping, where a step did as well as predicted
  int attempts = 4;       // dampings tried on one batch before another is drawn
  // A moving average of the iterates, each kept this much of the next: where it is better on the
  // validation pairs than the iterate, which is as noisy as its batch, the search goes on from it.
  double lookahead = 0.8;
};

// One iteration on theta. Returns the loss on its batch before the move: smoothed, with the last
// step refitted.
double lm_iteration(const Objective& objective, const Family& family, const LmOptions& options,
                    uint64_t seed, int64_t iteration, GaussNewtonState& state,
                    std::vector<double>& theta, Counts* counts);

}  // namespace bespoke
