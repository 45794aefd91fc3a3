#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "bespoke/base/random.h"
#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"

// A model whose predictions are known in closed form, and solvers run on it, on plain numbers: what
// the core is tested on where there is no LibTorch.
namespace bespoke::testing {

// The numbers of a few samples, one sample after another.
struct Array {
  std::vector<double> values;

  size_t size() const { return values.size(); }
  double& operator[](size_t i) { return values[i]; }
  double operator[](size_t i) const { return values[i]; }
};

inline Array operator+(Array left, const Array& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}
inline Array operator-(Array left, const Array& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] -= right[i];
  return left;
}
inline Array operator*(double factor, Array array) {
  for (double& value : array.values) value *= factor;
  return array;
}
inline Array operator/(Array array, double divisor) {
  for (double& value : array.values) value /= divisor;
  return array;
}

inline bool all_finite(const Array& array) {
  return std::all_of(array.values.begin(), array.values.end(),
                     [](double value) { return std::isfinite(value); });
}

// max |a - b| / max |b|; infinite where anything is not finite.
inline double relative_error(const Array& a, const Array& b) {
  if (a.size() != b.size() || !all_finite(a) || !all_finite(b)) {
    return std::numeric_limits<double>::infinity();
  }
  double difference = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return difference / scale;
}

// Standard normal noise for samples 0 ... count - 1.
inline Array normal_array(uint64_t seed, size_t count, size_t dimension) {
  Array noise{std::vector<double>(count * dimension)};
  for (size_t i = 0; i < count; ++i) {
    fill_normal(seed, i, &noise[i * dimension], static_cast<int64_t>(dimension));
  }
  return noise;
}

// The mean of N(mean_k, deviation_k^2 I) over k.
struct PlainMixture {
  size_t dimension = 0;
  std::vector<double> means;  // [components][dimension]
  std::vector<double> deviations;

  size_t components() const { return deviations.size(); }
  const double* mean(size_t k) const { return &means[k * dimension]; }
};

struct PlainMixtureOptions {
  size_t dimension = 6, components = 4;
  uint64_t seed = 7;
  double spread = 0.6, min_deviation = 0.2, max_deviation = 0.5;
};

// The default is small, but curvature and several scales all matter on it.
inline PlainMixture plain_mixture(const PlainMixtureOptions& options = {}) {
  PlainMixture mixture;
  mixture.dimension = options.dimension;
  const Array normal = normal_array(options.seed, options.components, options.dimension);
  mixture.means = (options.spread * normal).values;
  for (const double u : uniform_numbers(options.seed, 1, options.components)) {
    mixture.deviations.push_back(options.min_deviation +
                                 u * (options.max_deviation - options.min_deviation));
  }
  return mixture;
}

// Wide components: errors fall at their asymptotic rate from few steps on.
inline PlainMixture smooth_mixture() { return plain_mixture({4, 3, 7, 0.6, 0.4, 0.8}); }

// D and E, the data and the noise prediction.
struct DataAndNoise {
  Array data, noise;
};

// Those of one sample x = alpha x_1 + sigma eps. Component k has the posterior weight r_k, and with
// v_k = alpha^2 deviation_k^2 + sigma^2 and y_k = x - alpha mean_k
//   D_k = mean_k + alpha deviation_k^2 / v_k y_k,   E_k = sigma / v_k y_k.
inline void predict_sample(const PlainMixture& mixture, double alpha, double sigma, const double* x,
                           double* data, double* noise) {
  const size_t size = mixture.dimension;
  std::vector<double> variance, weight;
  for (size_t k = 0; k < mixture.components(); ++k) {
    const double deviation = alpha * mixture.deviations[k];
    variance.push_back(deviation * deviation + sigma * sigma);
    double distance = 0;
    for (size_t i = 0; i < size; ++i) {
      distance += std::pow(x[i] - alpha * mixture.mean(k)[i], 2);
    }
    weight.push_back(-0.5 * static_cast<double>(size) * std::log(variance[k]) -
                     distance / (2 * variance[k]));
  }
  const double largest = *std::max_element(weight.begin(), weight.end());
  double total = 0;
  for (double& w : weight) total += w = std::exp(w - largest);
  for (size_t k = 0; k < mixture.components(); ++k) {
    const double part = weight[k] / total, squared = std::pow(mixture.deviations[k], 2);
    for (size_t i = 0; i < size; ++i) {
      const double y = x[i] - alpha * mixture.mean(k)[i];
      data[i] += part * (mixture.mean(k)[i] + alpha * squared / variance[k] * y);
      noise[i] += part * sigma / variance[k] * y;
    }
  }
}

inline DataAndNoise predict(const PlainMixture& mixture, double alpha, double sigma,
                            const Array& x) {
  DataAndNoise result{0 * x, 0 * x};
  for (size_t i = 0; i < x.size(); i += mixture.dimension) {
    predict_sample(mixture, alpha, sigma, &x.values[i], &result.data[i], &result.noise[i]);
  }
  return result;
}

using Function = std::function<Array(double t, const Array& x)>;

// A network's output f(t, x) and what it is, and the velocity that follows from it.
struct PlainField {
  SchedulePtr schedule;
  Prediction prediction = Prediction::velocity;
  Function output;
  double margin = safe_margin(std::numeric_limits<double>::epsilon());

  Array velocity(double t, const Array& x) const {
    const double safe = safe_velocity_time(prediction, *schedule, t, margin);
    const Affine<double> affine = velocity_from(prediction, schedule->at(safe));
    return affine.state * x + affine.output * output(safe, x);
  }
};

// The exact model of a mixture on any path.
inline PlainField mixture_field(const PlainMixture& mixture, const SchedulePtr& schedule,
                                Prediction prediction = Prediction::velocity) {
  const auto output = [=](double t, const Array& x) {
    const SchedulePoint point = schedule->at(t);
    const DataAndNoise exact = predict(mixture, point.alpha, point.sigma, x);
    const auto weights = output_in_terms_of_data_and_noise(prediction, point);
    return weights.data * exact.data + weights.noise * exact.noise;
  };
  return {schedule, prediction, output};
}

// x_0 of `count` samples, scaled to the schedule.
inline Array starting_noise(const Schedule& schedule, size_t count, size_t dimension,
                            uint64_t seed = 1) {
  return schedule.source_std() * normal_array(seed, count, dimension);
}

// Runs a solver on a velocity from noise, as sampling does.
inline Array run(const NsSolver& solver, const Function& velocity, const Array& noise) {
  const Array start = solver.start_scale * noise;
  Array x = start;
  std::vector<Array> velocities;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    velocities.push_back(velocity(solver.times[i], x));
    x = solver.a[i] * start;
    for (size_t j = 0; j <= i; ++j) x = x + solver.b[i][j] * velocities[j];
  }
  return x;
}

inline Array run(const NsSolver& solver, const PlainField& field, const Array& noise) {
  return run(
      solver, [&](double t, const Array& x) { return field.velocity(t, x); }, noise);
}

// The state at `to` of the exact trajectory through x at `from`: the classical Runge-Kutta method
// with many steps, on dy/dr = D - E for y = x / (alpha + sigma) and r = alpha / (alpha + sigma),
// which is smooth at both ends of every path.
inline Array exact_flow(const PlainMixture& mixture, const Schedule& schedule, const Array& x,
                        double from, double to, int steps = 2000) {
  const auto slope = [&](double r, const Array& y) {
    const DataAndNoise exact = predict(mixture, r, 1 - r, y);
    return exact.data - exact.noise;
  };
  const auto scale = [&](double t) { return schedule.alpha(t) + schedule.sigma(t); };
  const double first = schedule.alpha(from) / scale(from), last = schedule.alpha(to) / scale(to);
  const double h = (last - first) / steps;
  Array y = x / scale(from);
  for (int i = 0; i < steps; ++i) {
    const double r = first + i * h;
    const Array k1 = slope(r, y);
    const Array k2 = slope(r + h / 2, y + h / 2 * k1);
    const Array k3 = slope(r + h / 2, y + h / 2 * k2);
    const Array k4 = slope(r + h, y + h * k3);
    y = y + h / 6 * (k1 + 2 * (k2 + k3) + k4);
  }
  return scale(to) * y;
}

}  // namespace bespoke::testing
