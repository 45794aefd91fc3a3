#include "damped_step.h"

#include <algorithm>
#include <utility>

namespace bespoke::detail {

std::vector<double> damped_step(const Matrix& hessian, double damping, const Family& family,
                                const std::vector<double>& gradient) {
  constexpr double kLastStepDamping = 0.01;  // of that of other parameters
  constexpr double kLeastDiagonal = 1e-12;   // of the largest entry
  double largest = 0;
  for (size_t i = 0; i < hessian.rows; ++i) largest = std::max(largest, hessian(i, i));
  std::vector<double> dampings(hessian.rows, damping);
  for (const size_t i : family.last_step()) dampings[i] *= kLastStepDamping;
  Matrix damped = hessian;
  for (size_t i = 0; i < hessian.rows; ++i) {
    damped(i, i) += dampings[i] * std::max(hessian(i, i), kLeastDiagonal * largest);
  }
  return solve_positive(std::move(damped), gradient);
}

}  // namespace bespoke::detail
