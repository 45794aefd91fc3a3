#pragma once

#include <vector>

#include "bespoke/base/matrix.h"

namespace bespoke {

// Errors below this count as this, in the mean square: far below the rounding of any state, it
// keeps logarithms finite where a solver is exact.
constexpr double kLeastError = 1e-30;

// The last step of a solver on some samples. x_n is linear in its coefficients w = (a_{n-1},
// b_{n-1,0} ... b_{n-1,n-1}): with V = (x_0, u_0 ... u_{n-1}), a change of w by d makes
//   |r + V d|^2 = |r|^2 + 2 <V^T r, d> + <d, V^T V d>,
// so the best w for given earlier steps is found without evaluating the model.
struct LastStep {
  struct Sample {
    double squared_error = 0;      // |r|^2
    std::vector<double> products;  // V^T r
    Matrix gram;                   // V^T V
  };
  std::vector<Sample> samples;
  double size = 1;   // numbers in a sample
  double floor = 0;  // added to |r|^2

  // The mean of log((|r + V d|^2 + floor) / size).
  double loss(const std::vector<double>& change) const;
};

// The change of w that minimises the mean log error, by damped Gauss-Newton steps.
std::vector<double> best_last_step(const LastStep& last);

}  // namespace bespoke
