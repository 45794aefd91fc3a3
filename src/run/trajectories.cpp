#include "bespoke/run/trajectories.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/solver/dormand_prince.h"

namespace bespoke {

namespace {

// state_factor * bar x(r) + slope_factor * bar u(r)
Array at_time(const Arrays& arrays, const RecordedSteps& sample, double r, double state_factor,
              double slope_factor) {
  const auto [i, weights] = dense_place(sample.times, r);
  std::vector<double> coefficients;
  for (size_t j = 0; j < weights.state.size(); ++j) {
    coefficients.push_back(state_factor * weights.state[j] + slope_factor * weights.slope[j]);
  }
  return arrays.combine(coefficients,
                        {sample.states[i], sample.slopes[i], sample.middles[i],
                         sample.states[i + 1], sample.slopes[i + 1]},
                        sample.states[i]);
}

}  // namespace

Trajectories::Trajectories(std::shared_ptr<const Arrays> arrays, std::vector<RecordedSteps> samples,
                           TrajectorySpan span)
    : arrays_(std::move(arrays)), samples_(std::move(samples)), span_(std::move(span)) {}

std::vector<double> Trajectories::times(int64_t sample) const {
  std::vector<double> times;
  for (const double r : samples_.at(static_cast<size_t>(sample)).times) {
    times.push_back(span_.schedule->time_at_snr(r / (1 - r)));
  }
  times.front() = span_.start;
  times.back() = span_.end;
  return times;
}

Array Trajectories::state_at(double t, const std::vector<int64_t>& samples) const {
  check(t);
  return at(t, from_fm_ot(*span_.schedule, t).s, 0, samples);
}

// x = s bar x(r) has the velocity s' bar x + s r' bar u.
Array Trajectories::velocity_at(double t, const std::vector<int64_t>& samples) const {
  check(t);
  const double inside = std::clamp(t, span_.first_velocity, span_.last_velocity);
  const ScaleTimePoint point = from_fm_ot(*span_.schedule, inside);
  return at(inside, point.s_dot, point.s * point.t_dot, samples);
}

Array Trajectories::at(double t, double state_factor, double slope_factor,
                       const std::vector<int64_t>& samples) const {
  const double r = from_fm_ot(*span_.schedule, t).t;
  std::vector<Array> parts;
  for (const int64_t k : samples) {
    parts.push_back(
        at_time(*arrays_, samples_.at(static_cast<size_t>(k)), r, state_factor, slope_factor));
  }
  return arrays_->concatenate(parts);
}

void Trajectories::check(double t) const {
  if (samples_.empty()) {
    throw usage_error("there are no trajectories; set ReferenceOptions::record to keep them");
  }
  if (!(t >= span_.start && t <= span_.end)) {
    throw usage_error("the trajectories run from t = {} to {}, found t = {}", span_.start,
                      span_.end, t);
  }
}

Trajectories Trajectories::of(const std::vector<int64_t>& samples) const {
  std::vector<RecordedSteps> some;
  for (const int64_t k : samples) some.push_back(samples_.at(static_cast<size_t>(k)));
  return {arrays_, std::move(some), span_};
}

Trajectories Trajectories::seen_from(SchedulePtr path) const {
  return {arrays_, samples_, {std::move(path), 0, 1, 0, 1}};
}

void Trajectories::append(Trajectories other) {
  if (samples_.empty()) {
    *this = std::move(other);
    return;
  }
  samples_.insert(samples_.end(), std::make_move_iterator(other.samples_.begin()),
                  std::make_move_iterator(other.samples_.end()));
}

}  // namespace bespoke
