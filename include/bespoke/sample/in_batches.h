#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bespoke/base/team.h"
#include "bespoke/sample/reference.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// How many samples are computed at once. A batch that does not fit the memory is tried again at
// half its size, and so are those after it.
struct Batching {
  int64_t batch = 64;                       // samples at once
  int64_t first_sample = 0;                 // the number of x0[0] among all samples of a run
  std::function<void(double)> on_progress;  // fraction of all samples done, 0 ... 1
  std::function<void(int64_t)> on_less;     // told each smaller batch
  // Told each sample that is given up, and why, as in ReferenceOptions.
  std::function<void(int64_t sample, const std::string& why)> on_given_up = {};
  // The team that computes them: each member its share, and all get all of them.
  Team* team = &alone();
  // Told once where whole samples cannot be recorded (RepeatedSampler).
  std::function<void(const std::string& note)> on_note = {};
};

// The reference samples from x0 [count, ...], computed where x0 lies, as reference() returns them
// but on the CPU; with the trajectories of the first so many, each three states for each of its
// steps. fixed_evaluations is as in ReferenceOptions.
ReferenceResult reference_in_batches(const ModelPtr& model, const torch::Tensor& x0,
                                     const Conditions& conditions, const Tolerances& tolerances,
                                     const Batching& batching = {}, int64_t trajectories = 0,
                                     int64_t fixed_evaluations = 0);

// The samples of a solver, in the type of its state.
torch::Tensor sample_in_batches(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                                const Conditions& conditions, const Batching& batching = {});

}  // namespace bespoke
