#pragma once

#include <functional>
#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/distill/family.h"

namespace bespoke::detail {

// Theta after a step with some damping, and the loss there.
struct Trial {
  double damping, loss;
  std::vector<double> theta;
};

using Attempt = std::function<std::vector<Trial>(const std::vector<double>& dampings)>;

// Walks the damping by factors of ten towards less loss. The first two are tried together.
Trial best_trial(const Attempt& attempt, double damping, int attempts);

// Theta after a damped step; empty where it cannot be solved.
std::vector<double> moved(const Family& family, const Matrix& hessian, double damping,
                          const std::vector<double>& gradient, const std::vector<double>& theta);

}  // namespace bespoke::detail
