#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/base/team.h"
#include "bespoke/model/model.h"
#include "bespoke/sample/dense_trajectories.h"
#include "bespoke/sample/reference.h"

namespace bespoke {

// What solvers are distilled from: noise and the reference samples from it, both [count, ...],
// with their conditions. The state a solver runs in is of the type of x0.
struct Pairs {
  torch::Tensor x0, x1;
  Conditions conditions;
  torch::Tensor evaluations;                              // [count] int64, what each x1 cost
  std::shared_ptr<const DenseTrajectories> trajectories;  // of the first samples; null: of none

  int64_t count() const { return x0.size(0); }
  // The same pairs with x0 and x1 on a device and in a type.
  Pairs to(torch::Device device, torch::ScalarType dtype) const;
};

// Which pairs to make: noise first ... first + count - 1 of a seed.
struct PairSource {
  int64_t seed = 1;
  int64_t first = 0, count = 520;
  Conditions conditions;  // [count, ...] each
  Tolerances tolerances;
  int64_t fixed_evaluations = 0;  // as in ReferenceOptions
  int64_t trajectories = 0;       // of the first so many, which the fit reads
};

// How to compute pairs, which changes none of their bits if it changes none of the model's.
struct PairRun {
  int64_t batch = 64;  // samples computed at once
  torch::Device device = torch::kCPU;
  std::function<void(double)> on_progress;  // fraction of what this run has to make, 0 ... 1
  // Told the number of a pair whose sample the reference cannot finish, and why: its x1 is then
  // NaN. Without this, such a pair is an Error (diverged).
  std::function<void(int64_t pair, const std::string& why)> on_given_up = {};
  Team* team = &alone();  // that makes them together; all members have them in the end
};

// Makes pairs with reference(), on the CPU in the model's state_dtype().
Pairs make_pairs(const ModelPtr& model, const PairSource& source, const PairRun& run = {});

// Pairs whose x1 is finite, and the numbers of those that were left out.
struct IntactPairs {
  Pairs pairs;
  std::vector<int64_t> left_out;
};

// Leaves out the pairs whose x1 is not finite: nothing can be learnt from them, and a few need not
// end a run. Throws (diverged) where fewer than half are left; `what` names the pairs there.
IntactPairs leave_out_broken(const Pairs& pairs, const std::string& what);

}  // namespace bespoke
