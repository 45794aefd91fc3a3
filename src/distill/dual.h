#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace bespoke {

// A value with its gradient with respect to all parameters, which is empty for a constant. A family
// is written once on its scalar type and gets its Jacobian from here by the chain rule.
struct Dual {
  double value = 0;
  std::vector<double> gradient;

  Dual() = default;
  Dual(double constant) : value(constant) {}  // a constant is a dual: lets formulas mix the two
  Dual(double value, std::vector<double> gradient) : value(value), gradient(std::move(gradient)) {}

  static Dual variable(double value, size_t index, size_t count) {
    std::vector<double> gradient(count, 0);
    gradient[index] = 1;
    return {value, std::move(gradient)};
  }
};

// value, with the gradient left_factor d(left) + right_factor d(right).
inline Dual chain(double value, double left_factor, const Dual& left, double right_factor,
                  const Dual& right) {
  Dual result(value);
  result.gradient.assign(std::max(left.gradient.size(), right.gradient.size()), 0);
  for (size_t i = 0; i < left.gradient.size(); ++i) {
    result.gradient[i] += left_factor * left.gradient[i];
  }
  for (size_t i = 0; i < right.gradient.size(); ++i) {
    result.gradient[i] += right_factor * right.gradient[i];
  }
  return result;
}

inline Dual operator+(const Dual& a, const Dual& b) { return chain(a.value + b.value, 1, a, 1, b); }
inline Dual operator*(const Dual& a, const Dual& b) {
  return chain(a.value * b.value, b.value, a, a.value, b);
}
inline Dual operator/(const Dual& a, const Dual& b) {
  const double quotient = a.value / b.value;
  return chain(quotient, 1 / b.value, a, -quotient / b.value, b);
}
inline Dual exp(const Dual& a) {
  const double e = std::exp(a.value);
  return chain(e, e, a, 0, Dual());
}

}  // namespace bespoke
