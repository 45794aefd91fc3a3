#pragma once

#include <vector>

namespace bespoke {

// Exponential steps on the FM-OT path: the linear part of the ODE is exact, data predictions are
// interpolated. With rho = r / (1 - r),
//   x(r') = (1 - r') / (1 - r) x(r) + (1 - r') * integral of D d rho from rho(r) to rho(r'),
// and D is taken as the polynomial through the predictions known in
//   w = rho^(1/2) / (1 + rho^(1/2)),
// 0 at the noise and 1 at the data: along the ways of networks' samples D changes about evenly in
// it, and both ends are finite.
double warped_time(double r);  // w
double unwarped_time(double w);

// x(to) is `state` times x(from) and the sum of data[j] D(known[j]).
struct ExponentialStep {
  double state = 0;
  std::vector<double> data;
};
ExponentialStep exponential_step(double from, double to, const std::vector<double>& known);

// Where a sample is drawn by so many evaluations: at `first`, and from there, or from a log-SNR of
// -6 where that is later, at times even in w up to `last` or a log-SNR of 6.
std::vector<double> even_warped_times(double first, double last, int count);

}  // namespace bespoke
