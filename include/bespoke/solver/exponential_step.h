#pragma once

#include <vector>

namespace bespoke {

// Exponential steps on the FM-OT path: the linear part of the ODE is exact, data predictions are
// interpolated. With rho = r / (1 - r),
//   x(r') = (1 - r') / (1 - r) x(r) + (1 - r') * integral of D d rho from rho(r) to rho(r'),
// and D is taken as the polynomial through known predictions in
//   w = rho^(1/2) / (1 + rho^(1/2)),
// 0 at the noise and 1 at the data: along trajectories of networks D changes about evenly in
// it, and both ends are finite.
// The w of a time.
double warped_time(double r);
// The time at a w.
double unwarped_time(double w);

// A step: x(to) is `state` times x(from) plus the sum of data[j] D(times[j]).
struct ExponentialStep {
  double state = 0;
  std::vector<double> data;
};
ExponentialStep exponential_step(double from, double to, const std::vector<double>& times);

// The times of so many evaluations by which a sample is drawn: `first`, and from there, or from a
// log-SNR of -6 where that is later, at times even in w up to `last` or a log-SNR of 6.
std::vector<double> even_warped_times(double first, double last, int count);

}  // namespace bespoke
