#pragma once

#include <vector>

#include "bespoke/base/matrix.h"

namespace bespoke {

// Errors below this count as this, in the mean square: far below the rounding of any state, it
// keeps logarithms finite where a solver is exact.
constexpr double kLeastError = 1e-30;

// How far a state is from a target on some samples, linear in some numbers: with residual r and
// columns V, a change d makes
//   |r + V d|^2 = |r|^2 + 2 <V^T r, d> + <d, V^T V d>.
// For one step of a solver it is exact, V = (x_0, u_0 ... u_i) and d a change of its coefficients
// (a_i, b_i0 ... b_ii); for a whole solver V is the Jacobian of x_n.
struct LinearModel {
  struct Sample {
    double squared_error = 0;      // |r|^2
    std::vector<double> products;  // V^T r
    Matrix gram;                   // V^T V
  };
  std::vector<Sample> samples;
  double size = 1;   // numbers in a sample
  double floor = 0;  // added to |r|^2

  size_t columns() const { return samples.front().products.size(); }

  // The mean of log((|r + V d|^2 + floor) / size).
  double loss(const std::vector<double>& change) const;

  // The geometric mean of |r|^2, without the floor.
  double typical_square() const;
};

// The same after a change.
LinearModel moved(const LinearModel& model, const std::vector<double>& change);

// The change that minimises the mean log error, by damped Gauss-Newton steps.
std::vector<double> best_change(const LinearModel& model);

// The change that minimises the sum of |r + V d|^2, ridged by a hair where columns are dependent.
// Empty where even that cannot be solved.
std::vector<double> least_squares_change(const LinearModel& model);

// The change that minimises a sum in which no sample rules: from least squares on, in a few rounds,
// each weighs 1 / (its |r + V d|^2 + `smoothing` times their mean). For a single sample it is least
// squares.
std::vector<double> balanced_change(const LinearModel& model, double smoothing);

// The gradient of the mean log error at no change, and its Gauss-Newton matrix, the mean of
// 2 V^T V / (|r|^2 + floor).
struct LinearModelSlope {
  std::vector<double> gradient;
  Matrix curvature;
};
LinearModelSlope slope_of(const LinearModel& model);

}  // namespace bespoke
