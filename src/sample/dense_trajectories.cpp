#include "bespoke/sample/dense_trajectories.h"

#include <numeric>

#include "bespoke/tensor/tensor_arrays.h"

namespace bespoke {

namespace {

std::vector<int64_t> all_of(const Trajectories& trajectories) {
  std::vector<int64_t> samples(static_cast<size_t>(trajectories.count()));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

}  // namespace

DenseTrajectories::DenseTrajectories(std::vector<RecordedSteps> samples, TrajectorySpan span)
    : Trajectories(tensor_arrays(), std::move(samples), std::move(span)) {}

torch::Tensor DenseTrajectories::state_at(double t) const {
  return tensor_of(Trajectories::state_at(t, all_of(*this)));
}

torch::Tensor DenseTrajectories::velocity_at(double t) const {
  return tensor_of(Trajectories::velocity_at(t, all_of(*this)));
}

}  // namespace bespoke
