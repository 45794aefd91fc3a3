#include "bespoke/solver/exponential_step.h"

#include <algorithm>
#include <cmath>

#include "quadrature.h"

namespace bespoke {

double warped_time(double r) {
  const double data = std::sqrt(r), noise = std::sqrt(1 - r);
  return data / (data + noise);
}

double unwarped_time(double w) { return w * w / (w * w + (1 - w) * (1 - w)); }

ExponentialStep exponential_step(double from, double to, const std::vector<double>& times) {
  const double left = 1 - to;
  std::vector<double> places;
  for (const double r : times) places.push_back(warped_time(r));
  const auto w = [](double place) { return place; };
  const auto measure = [left](double place) {
    return left * 2 * place / std::pow(1 - place, 3);  // d rho / d w
  };
  return {left / (1 - from),
          lagrange_integrals(places, warped_time(from), warped_time(to), w, measure)};
}

std::vector<double> even_warped_times(double first, double last, int count) {
  // `lowest` has a log-SNR of -6, and what lies before `near` is worth an evaluation of its own.
  const double lowest = 1 / (1 + std::exp(6)), near = 1 / (1 + std::exp(6.5));
  const bool skips = first < near;
  const int even = skips ? count - 1 : count;
  const double from = warped_time(skips ? lowest : first), until = std::min(last, 1 - lowest);
  const double step = (warped_time(until) - from) / (even - 1);
  std::vector<double> times = {first};
  for (int i = skips ? 0 : 1; i + 1 < even; ++i) times.push_back(unwarped_time(from + i * step));
  times.push_back(until);
  return times;
}

}  // namespace bespoke
