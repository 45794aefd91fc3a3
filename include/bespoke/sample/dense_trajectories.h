#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

#include "bespoke/run/trajectories.h"

namespace bespoke {

// Trajectories of a batch of tensors, on the CPU. A recorded tensor is [1, ...].
class DenseTrajectories : public Trajectories {
 public:
  DenseTrajectories() = default;
  DenseTrajectories(std::vector<RecordedSteps> samples, TrajectorySpan span);
  explicit DenseTrajectories(Trajectories trajectories) : Trajectories(std::move(trajectories)) {}

  // The states of all samples, [count, ...]; float32 or float64, as the steps are.
  torch::Tensor state_at(double t) const;
  torch::Tensor velocity_at(double t) const;
  using Trajectories::state_at;
  using Trajectories::velocity_at;
};

}  // namespace bespoke
