#include "bespoke/sample/dense_trajectories.h"

#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/solver/dormand_prince.h"
#include "bespoke/tensor/combine.h"

namespace bespoke {

namespace {

// state_factor * bar x(r) + slope_factor * bar u(r) into a row.
void write_row(torch::Tensor row, const RecordedSteps& sample, double r, double state_factor,
               double slope_factor) {
  const auto [i, weights] = dense_place(sample.times, r);
  std::vector<double> coefficients;
  for (size_t j = 0; j < weights.state.size(); ++j) {
    coefficients.push_back(state_factor * weights.state[j] + slope_factor * weights.slope[j]);
  }
  combine(row,
          {sample.states[i], sample.slopes[i], sample.middles[i], sample.states[i + 1],
           sample.slopes[i + 1]},
          coefficients);
}

}  // namespace

DenseTrajectories::DenseTrajectories(std::vector<RecordedSteps> samples, TrajectorySpan span)
    : samples_(std::move(samples)), span_(std::move(span)) {}

std::vector<double> DenseTrajectories::times(int64_t sample) const {
  std::vector<double> times;
  for (const double r : samples_.at(static_cast<size_t>(sample)).times) {
    times.push_back(span_.schedule->time_at_snr(r / (1 - r)));
  }
  times.front() = span_.start;
  times.back() = span_.end;
  return times;
}

torch::Tensor DenseTrajectories::state_at(double t) const {
  check(t);
  return at(t, from_fm_ot(*span_.schedule, t).s, 0);
}

// x = s bar x(r) has the velocity s' bar x + s r' bar u.
torch::Tensor DenseTrajectories::velocity_at(double t) const {
  check(t);
  const double inside = std::clamp(t, span_.first_velocity, span_.last_velocity);
  const ScaleTimePoint point = from_fm_ot(*span_.schedule, inside);
  return at(inside, point.s_dot, point.s * point.t_dot);
}

torch::Tensor DenseTrajectories::at(double t, double state_factor, double slope_factor) const {
  const double r = from_fm_ot(*span_.schedule, t).t;
  const torch::Tensor& like = samples_[0].states[0];
  std::vector<int64_t> shape = like.sizes().vec();
  shape.insert(shape.begin(), count());
  torch::Tensor result = torch::empty(shape, like.options());
  for (int64_t k = 0; k < count(); ++k) {
    write_row(result[k], samples_[static_cast<size_t>(k)], r, state_factor, slope_factor);
  }
  return result;
}

void DenseTrajectories::check(double t) const {
  if (samples_.empty()) {
    throw usage_error("there are no trajectories; set ReferenceOptions::record to keep them");
  }
  if (!(t >= span_.start && t <= span_.end)) {
    throw usage_error("the trajectories run from t = {} to {}, found t = {}", span_.start,
                      span_.end, t);
  }
}

void DenseTrajectories::append(DenseTrajectories other) {
  if (samples_.empty()) {
    *this = std::move(other);
    return;
  }
  samples_.insert(samples_.end(), std::make_move_iterator(other.samples_.begin()),
                  std::make_move_iterator(other.samples_.end()));
}

}  // namespace bespoke
