#pragma once

#include <functional>
#include <string>

#include "bespoke/model/model.h"
#include "bespoke/sample/dense_trajectories.h"
#include "bespoke/solver/dormand_prince.h"

namespace bespoke {

struct ReferenceOptions {
  Tolerances tolerances;
  double start = 0, end = 1;                  // in the model's time; x_0 is the state at start
  int64_t most_evaluations = 20000;           // per sample, before it is called diverged
  int64_t first_sample = 0;                   // the number of x0[0] among all samples of a run
  std::function<void(double)> on_progress;    // fraction of all samples' time done, 0 ... 1
  int64_t batch = 0;                          // samples computed at a time, 0 for all
  std::function<void(int64_t)> on_less = {};  // told a smaller batch, where memory ran out
  int64_t record = 0;  // keep the trajectories of the first so many; x(1) is the same either way
  // Told the number of a sample that the reference cannot finish, and why; its x and its trajectory
  // are then NaN. Where there is none, such a sample is an Error (diverged).
  std::function<void(int64_t sample, const std::string& why)> on_given_up = {};
};

struct ReferenceResult {
  torch::Tensor x;                      // [count, ...] float64, on the CPU
  torch::Tensor evaluations;            // [count] int64, what each sample spent
  DenseTrajectories trajectories = {};  // those recorded, in the type of x0's state
};

// DormandPrince on any field over [start, end], in float64. Every sample has steps of its own, so a
// result does not depend on what else is in the batch. Samples that arrive make room in the batch
// for the next, so that it stays full; memory on the field's device is that of two batches.
ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options);

// A fixed number of equal steps of order 8 (modified midpoint, extrapolated): slow, simple, and
// independent of the above, to check it by. 20 evaluations a step.
torch::Tensor integrate_fixed(const Field& field, const torch::Tensor& x0,
                              const Conditions& conditions, double start, double end, int steps);

// The model's own sample x(1): either integrator, run in the coordinates of the FM-OT path,
// bar x = x / (alpha + sigma), where the field is D - E, bounded and smooth at both ends whatever
// the schedule. (For a velocity model on FM-OT these are its own coordinates.) An end at which the
// prediction determines nothing is bridged by a first-order step of negligible length.
ReferenceResult reference(const ModelPtr& model, const torch::Tensor& x0,
                          const Conditions& conditions = {}, const ReferenceOptions& options = {});

// On what its recorded trajectories lie.
TrajectorySpan trajectory_span(const Model& model, double start = 0, double end = 1);

torch::Tensor reference_fixed(const ModelPtr& model, const torch::Tensor& x0,
                              const Conditions& conditions, int steps, double start = 0,
                              double end = 1);

}  // namespace bespoke
