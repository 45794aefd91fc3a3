#include "bespoke/solver/dormand_prince.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/jet.h"

namespace bespoke {

namespace {

constexpr size_t kStages = DormandPrince::kStages;

// Dormand and Prince 1980. The last stage is the new state, so its slope is the next step's first.
constexpr double kStageNodes[kStages] = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1};
constexpr double kStageWeights[kStages][kStages] = {
    {},
    {1. / 5},
    {3. / 40, 9. / 40},
    {44. / 45, -56. / 15, 32. / 9},
    {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
    {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
    {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}};
// Difference between the fifth- and the embedded fourth-order weights.
constexpr double kErrorWeights[kStages] = {71. / 57600,      0,         -71. / 16695, 71. / 1920,
                                           -17253. / 339200, 22. / 525, -1. / 40};
// The state in the middle of a step: Shampine's choice among the fourth-order ones (1986), which
// makes the quartic that Hairer, Norsett and Wanner give too.
constexpr double kMiddleWeights[kStages] = {
    6025192743. / 60171106304.,     0,
    51252292925. / 130801643196.,   -2691868925. / 90256659456.,
    187940372067. / 3189068634112., -1776094331. / 39487288512.,
    11237099. / 470086768.};

// A step may grow by 3, not the customary 10: where the estimate happens to pass through zero, a
// tenfold step misses the tolerance widely, and growing slower costs no evaluations.
constexpr double kSafety = 0.9, kLeastFactor = 0.2, kMostFactor = 3;
constexpr double kErrorExponent = -1. / 5;

// How far steps may be expected to shrink by what they shrank before.
constexpr double kLeastTrend = 0.3;

double step_factor(double error, double trend, bool accepted, bool after_rejection) {
  if (!std::isfinite(error)) return kLeastFactor;
  double factor = error == 0 ? kMostFactor : kSafety * trend * std::pow(error, kErrorExponent);
  factor = std::min(kMostFactor, std::max(kLeastFactor, factor));
  return !accepted || after_rejection ? std::min(1.0, factor) : factor;
}

}  // namespace

DormandPrince::DormandPrince(int64_t count, const DormandPrinceOptions& options)
    : options_(options),
      samples_(static_cast<size_t>(count), Sample{options.start, 0, 0, 0, false, 0}),
      active_(static_cast<size_t>(count)) {
  const auto good = [](double tolerance) { return tolerance > 0 && std::isfinite(tolerance); };
  if (!good(options.tolerances.rtol) || !good(options.tolerances.atol)) {
    throw usage_error("tolerances must be positive, found rtol = {}, atol = {}",
                      options.tolerances.rtol, options.tolerances.atol);
  }
  if (!(options.start <= options.end)) {
    throw usage_error("a run goes forward in time, found {} to {}", options.start, options.end);
  }
  std::iota(active_.begin(), active_.end(), 0);
}

template <class Value>
DormandPrince::Values DormandPrince::of_each(Value value) const {
  Values values(active_.size());
  for (size_t k = 0; k < values.size(); ++k) values[k] = value(sample(k));
  return values;
}

DormandPrince::Values DormandPrince::times() const {
  return of_each([](const Sample& s) { return s.time; });
}

DormandPrince::Values DormandPrince::step_sizes() const { return scaled_steps(1); }

DormandPrince::Values DormandPrince::scaled_steps(double factor) const {
  return of_each([&](const Sample& s) { return s.step * factor; });
}

std::vector<int64_t> DormandPrince::evaluations() const {
  std::vector<int64_t> values;
  for (const Sample& s : samples_) values.push_back(s.evaluations);
  return values;
}

double DormandPrince::progress() const {
  if (samples_.empty()) return 1;
  double done = 0;
  for (const Sample& s : samples_) {
    const bool there = s.time >= options_.end;
    done += there ? 1 : (s.time - options_.start) / (options_.end - options_.start);
  }
  return done / static_cast<double>(samples_.size());
}

void DormandPrince::expect_one_each(const Values& values) const {
  if (values.size() != active_.size()) {
    throw std::logic_error("DormandPrince: one norm is needed for each active sample");
  }
}

void DormandPrince::guess(const Values& state_norms, const Values& slope_norms) {
  expect_one_each(state_norms);
  expect_one_each(slope_norms);
  const double span = options_.end - options_.start;
  for (size_t k = 0; k < active_.size(); ++k) {
    const bool tiny = state_norms[k] < 1e-5 || slope_norms[k] < 1e-5;
    sample(k).step = std::min(span, tiny ? 1e-6 : 0.01 * state_norms[k] / slope_norms[k]);
    sample(k).slope_norm = slope_norms[k];
    sample(k).evaluations = 1;
  }
}

DormandPrince::Values DormandPrince::guess_times() const {
  return of_each([](const Sample& s) { return s.time + s.step; });
}

Combination DormandPrince::guess_state() const {
  return {{0, 1}, {Values(active_.size(), 1.0), step_sizes()}};
}

void DormandPrince::begin(const Values& change_norms) {
  expect_one_each(change_norms);
  const double span = options_.end - options_.start;
  for (size_t k = 0; k < active_.size(); ++k) {
    const double trial = sample(k).step;
    const double largest = std::max(sample(k).slope_norm, change_norms[k] / trial);
    const double step =
        largest <= 1e-15 ? std::max(1e-6, trial * 1e-3) : std::pow(0.01 / largest, 0.2);
    sample(k).evaluations = 2;
    set_step(sample(k), std::min({100 * trial, step, span}));
  }
}

// A last step a hair short of the end would leave a sliver that costs a whole step.
void DormandPrince::set_step(Sample& sample, double step) const {
  const double left = options_.end - sample.time;
  sample.step = step > left * (1 - 1e-10) ? left : step;
}

DormandPrince::Values DormandPrince::stage_times(size_t stage) const {
  return of_each([&](const Sample& s) {
    return std::min(options_.end, s.time + kStageNodes[stage] * s.step);
  });
}

void DormandPrince::add_slopes(Combination& sum, const double (&weights)[kStages]) const {
  for (size_t j = 0; j < kStages; ++j) {
    if (weights[j] == 0) continue;
    sum.terms.push_back(1 + j);
    sum.coefficients.push_back(scaled_steps(weights[j]));
  }
}

Combination DormandPrince::state_with(const double (&weights)[kStages]) const {
  Combination state = {{0}, {Values(active_.size(), 1.0)}};
  add_slopes(state, weights);
  return state;
}

Combination DormandPrince::stage_state(size_t stage) const {
  return state_with(kStageWeights[stage]);
}

Combination DormandPrince::middle() const { return state_with(kMiddleWeights); }

Combination DormandPrince::error() const {
  Combination error;
  add_slopes(error, kErrorWeights);
  return error;
}

// Towards the data steps shrink from one to the next, and as many attempts as steps would fail if
// each began with what suited the one before. Growth is not expected: it may be chance.
double DormandPrince::next_trend(Sample& sample, double error) {
  const double suited = sample.step * std::pow(error, kErrorExponent);
  const double before = std::exchange(sample.suited_step, suited);
  const bool has_trend = before > 0 && std::isfinite(before);
  return has_trend ? std::clamp(suited / before, kLeastTrend, 1.0) : 1;
}

std::vector<bool> DormandPrince::decide(const Values& error_norms) {
  expect_one_each(error_norms);
  std::vector<bool> accepted(active_.size());
  for (size_t k = 0; k < active_.size(); ++k) {
    Sample& s = sample(k);
    const bool good = error_norms[k] <= 1;
    if (good) s.time = s.step >= options_.end - s.time ? options_.end : s.time + s.step;
    const double trend = good ? next_trend(s, error_norms[k]) : 1;
    s.step *= step_factor(error_norms[k], trend, good, s.rejected);
    s.rejected = !good;
    s.evaluations += static_cast<int64_t>(kStages) - 1;
    give_up_if_stuck(k);
    set_step(s, s.step);
    accepted[k] = good;
  }
  return accepted;
}

void DormandPrince::give_up_if_stuck(size_t k) {
  Sample& s = sample(k);
  if (s.time >= options_.end) return;
  const bool stuck = s.step < 1e-14 * (options_.end - options_.start);
  if (!stuck && s.evaluations < options_.most_evaluations) return;
  const int64_t number = options_.first_sample + active_[k];
  const std::string why = fmt::format(
      "the reference cannot meet tolerance {:g} at t = {} for sample {} after {} evaluations; "
      "loosen the tolerance or check the model for NaN there",
      options_.tolerances.rtol, s.time, number, s.evaluations);
  if (!options_.on_given_up) throw Error(ErrorKind::diverged, why);
  s.time = options_.end;
  options_.on_given_up(number, why);
}

DormandPrince::Positions DormandPrince::arrived() const {
  Positions positions;
  for (size_t k = 0; k < active_.size(); ++k) {
    if (sample(k).time >= options_.end) positions.push_back(static_cast<int64_t>(k));
  }
  return positions;
}

DormandPrince::Positions DormandPrince::retire() {
  Positions staying, numbers;
  for (size_t k = 0; k < active_.size(); ++k) {
    if (sample(k).time >= options_.end) continue;
    staying.push_back(static_cast<int64_t>(k));
    numbers.push_back(active_[k]);
  }
  active_ = std::move(numbers);
  return staying;
}

DenseWeights dense_weights(double fraction, double step) {
  const Jet s = Jet::variable(fraction), left = 1 - s, centre = 1 - 2 * s;
  const std::array<Jet, 5> weights = {
      left * left * centre * (1 + 4 * s), step * s * left * left * centre, 16 * s * s * left * left,
      -(s * s * centre * (5 - 4 * s)), step * s * s * left * centre};
  DenseWeights result;
  for (size_t j = 0; j < weights.size(); ++j) {
    result.state[j] = weights[j].value;
    result.slope[j] = weights[j].first / step;
  }
  return result;
}

DensePlace dense_place(const std::vector<double>& times, double time) {
  const auto inner = std::upper_bound(times.begin() + 1, times.end() - 1, time);
  const auto step = static_cast<size_t>(inner - times.begin()) - 1;
  const double size = times[step + 1] - times[step];
  if (!(size > 0)) return {step, dense_weights(0, 1)};  // a step of no length is its beginning
  return {step, dense_weights(std::clamp((time - times[step]) / size, 0.0, 1.0), size)};
}

}  // namespace bespoke
