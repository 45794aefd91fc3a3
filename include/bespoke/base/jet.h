#pragma once

#include <cmath>

namespace bespoke {

// A value with its first two derivatives with respect to time. Schedules are written once on jets
// and get their derivatives by the chain rule, so no derivative is ever typed by hand.
struct Jet {
  double value = 0;
  double first = 0;
  double second = 0;

  Jet() = default;
  Jet(double constant) : value(constant) {}  // a constant is a jet: lets formulas mix the two
  Jet(double value, double first, double second) : value(value), first(first), second(second) {}

  // The independent variable itself.
  static Jet variable(double t) { return {t, 1, 0}; }

  // The derivative as a jet, whose second derivative is not known and left at zero.
  Jet derivative() const { return {first, second, 0}; }
};

inline Jet operator+(const Jet& a, const Jet& b) {
  return {a.value + b.value, a.first + b.first, a.second + b.second};
}
inline Jet operator-(const Jet& a, const Jet& b) {
  return {a.value - b.value, a.first - b.first, a.second - b.second};
}
inline Jet operator-(const Jet& a) { return {-a.value, -a.first, -a.second}; }
inline Jet operator*(const Jet& a, const Jet& b) {
  return {a.value * b.value, a.first * b.value + a.value * b.first,
          a.second * b.value + 2 * a.first * b.first + a.value * b.second};
}

// Computes f(a) from the value and the first two derivatives of f at a.value.
inline Jet chain(const Jet& a, double f, double f1, double f2) {
  return {f, f1 * a.first, f2 * a.first * a.first + f1 * a.second};
}

inline Jet operator/(const Jet& a, const Jet& b) {
  const double inverse = 1 / b.value;
  return a * chain(b, inverse, -inverse * inverse, 2 * inverse * inverse * inverse);
}
inline Jet exp(const Jet& a) {
  const double e = std::exp(a.value);
  return chain(a, e, e, e);
}
inline Jet expm1(const Jet& a) {
  const double e = std::exp(a.value);
  return chain(a, std::expm1(a.value), e, e);
}
inline Jet log(const Jet& a) {
  const double inverse = 1 / a.value;
  return chain(a, std::log(a.value), inverse, -inverse * inverse);
}
inline Jet sin(const Jet& a) {
  const double s = std::sin(a.value);
  return chain(a, s, std::cos(a.value), -s);
}
inline Jet cos(const Jet& a) {
  const double c = std::cos(a.value);
  return chain(a, c, -std::sin(a.value), -c);
}
inline Jet sqrt(const Jet& a) {
  const double root = std::sqrt(a.value);
  return chain(a, root, 0.5 / root, -0.25 / (root * a.value));
}

}  // namespace bespoke
