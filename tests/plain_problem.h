#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "bespoke/distill/adam.h"
#include "bespoke/distill/coefficients.h"
#include "bespoke/run/canonical_samples.h"
#include "bespoke/run/plain_arrays.h"
#include "bespoke/run/reference.h"
#include "bespoke/run/samples.h"
#include "plain_field.h"

namespace bespoke::testing {

// What is wrong with a model's answers.
struct Flaws {
  double rounding = 0;  // to multiples of this
  double jitter = 0;    // another error in every call, up to this
};

// The model of a mixture as a function of plain arrays.
inline PlainFunction mixture_function(const PlainMixture& mixture, const SchedulePtr& schedule,
                                      Prediction prediction = Prediction::velocity,
                                      Flaws flaws = {}) {
  const PlainField exact = mixture_field(mixture, schedule, prediction);
  const auto calls = std::make_shared<int64_t>(0);
  return [=](const std::vector<double>& times, const PlainArray& x, const std::vector<int64_t>&) {
    std::vector<double> values;
    for (int64_t row = 0; row < x.count; ++row) {
      const auto begin = x.values.begin() + row * x.sample_size();
      Array f = exact.output(times[static_cast<size_t>(row)], {{begin, begin + x.sample_size()}});
      for (double& value : f.values) {
        if (flaws.rounding > 0) value = flaws.rounding * std::round(value / flaws.rounding);
        if (flaws.jitter > 0) value += flaws.jitter * std::sin(static_cast<double>(++*calls) * 37);
        values.push_back(value);
      }
    }
    return values;
  };
}

struct PlainSamplesOptions {
  Flaws flaws = {};
  int64_t trajectories = -1;  // known of the first so many; -1: of all
  double x1_factor = 1;       // what the model's samples are said to be, of what they are
  EvaluationOptions samples = {};
  bool canonical = false;  // in canonical coordinates, as packages ask
};

// Samples of a mixture in plain arrays: targets by the classical Runge-Kutta method, trajectories
// by the core's own reference.
inline Samples plain_samples(const PlainMixture& mixture, const SchedulePtr& schedule, size_t count,
                             uint64_t seed, const PlainSamplesOptions& options = {}) {
  const auto exact =
      plain_field(mixture_function(mixture, schedule), Prediction::velocity, schedule);
  const auto rows = static_cast<int64_t>(count);
  const Array noise = starting_noise(*schedule, count, mixture.dimension, seed);
  const Array x1 = options.x1_factor * exact_flow(mixture, *schedule, noise, 0, 1, 500);
  const auto start = bespoke::Array::of(PlainArray{noise.values, rows});
  std::shared_ptr<const Trajectories> trajectories;
  if (options.trajectories != 0) {
    ReferenceOptions reference;
    reference.tolerances = {1e-9, 1e-9};
    reference.record = options.trajectories < 0 ? rows : options.trajectories;
    std::vector<int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    trajectories = std::make_shared<const Trajectories>(
        draw_reference(exact, plain_arrays(), start, numbers, reference).trajectories);
  }
  const auto field =
      plain_field(mixture_function(mixture, schedule, Prediction::velocity, options.flaws),
                  Prediction::velocity, schedule);
  const auto target = bespoke::Array::of(PlainArray{x1.values, rows});
  if (options.canonical) {
    return canonical_samples(field, start, target, trajectories, options.samples);
  }
  return {field, start, target, trajectories, options.samples};
}

// The gradient of the loss in every coefficient by central differences of it.
class DifferenceGradients : public LossGradients {
 public:
  explicit DifferenceGradients(const Samples& samples) : samples_(samples) {}

  LossGradient at(const NsSolver& solver, const std::vector<int64_t>& subset,
                  Counts* counts) const override {
    constexpr double kStep = 1e-6;
    const std::vector<double> coefficients = coefficients_of(solver);
    LossGradient found{loss(solver, subset, counts), {}};
    for (size_t j = 0; j < coefficients.size(); ++j) {
      const auto moved = [&](double by) {
        auto changed = coefficients;
        changed[j] += by;
        return loss(solver_of(solver.nfe(), changed), subset, counts);
      };
      found.gradient.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
    }
    return found;
  }

 private:
  double loss(const NsSolver& solver, const std::vector<int64_t>& subset, Counts* counts) const {
    const auto errors = samples_.log_errors(solver, subset, counts);
    return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  }

  const Samples& samples_;
};

// A small mixture to train and to validate on.
struct PlainProblem {
  Samples training, validation;

  explicit PlainProblem(const SchedulePtr& schedule, const PlainSamplesOptions& options = {})
      : training(plain_samples(plain_mixture(), schedule, 64, 1, options)),
        validation(plain_samples(plain_mixture(), schedule, 48, 2, options)) {}
};

}  // namespace bespoke::testing
