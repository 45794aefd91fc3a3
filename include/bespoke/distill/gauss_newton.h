#pragma once

#include "bespoke/base/matrix.h"

namespace bespoke {

// What an iteration of a damped Gauss-Newton method hands to the next.
struct GaussNewtonState {
  double damping = 0;  // 0: not started
  Matrix curvature;    // sum over iterations of H e^loss, in the solver's coefficients
  double weight = 0;   // and of their weights
};

}  // namespace bespoke
