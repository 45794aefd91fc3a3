#pragma once

#include "bespoke/base/team.h"
#include "bespoke/model/model.h"
#include "bespoke/run/adaptive.h"
#include "bespoke/sample/dense_trajectories.h"

namespace bespoke {

struct ReferenceResult {
  torch::Tensor x;                      // [count, ...] float64, on the CPU
  torch::Tensor evaluations;            // [count] int64, what each sample spent
  DenseTrajectories trajectories = {};  // those recorded, in the type of x0's state
};

// Runs integrate_adaptive of the core on any field over [start, end], in float64.
ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options);

// Takes a fixed number of equal steps of order 8 (modified midpoint, extrapolated), with 20
// evaluations per step: slow, simple, and independent of the above, to check it by.
torch::Tensor integrate_fixed(const Field& field, const torch::Tensor& x0,
                              const Conditions& conditions, double start, double end, int steps);

// Draws reference samples x(1): either integrator, run in the coordinates of the FM-OT path,
// bar x = x / (alpha + sigma), where the field is D - E, bounded and smooth at both ends whatever
// the schedule. (For a velocity model on FM-OT these are its own coordinates.) An end at which the
// prediction determines nothing is bridged by a first-order step of negligible length. Each member
// of a team draws its share, and all get all.
ReferenceResult reference(const ModelPtr& model, const torch::Tensor& x0,
                          const Conditions& conditions = {}, const ReferenceOptions& options = {},
                          Team& team = alone());

// What recorded trajectories of a model lie on.
TrajectorySpan trajectory_span(const Model& model, double start = 0, double end = 1);

torch::Tensor reference_fixed(const ModelPtr& model, const torch::Tensor& x0,
                              const Conditions& conditions, int steps, double start = 0,
                              double end = 1);

}  // namespace bespoke
