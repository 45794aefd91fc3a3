#include "quadrature.h"

#include <array>
#include <cmath>

namespace bespoke {

namespace {

constexpr int kNodes = 16;

struct GaussLegendre {
  std::array<double, kNodes> x, w;
};

// Roots of the Legendre polynomial by Newton's method from Chebyshev's estimate.
GaussLegendre make_gauss_legendre() {
  GaussLegendre rule{};
  const double pi = std::acos(-1.0);
  for (int i = 0; i < kNodes; ++i) {
    double x = std::cos(pi * (i + 0.75) / (kNodes + 0.5));
    double slope = 0;
    for (int iteration = 0; iteration < 100; ++iteration) {
      double previous = 1, value = x;
      for (int k = 2; k <= kNodes; ++k) {
        const double next = ((2 * k - 1) * x * value - (k - 1) * previous) / k;
        previous = value;
        value = next;
      }
      slope = kNodes * (x * value - previous) / (x * x - 1);
      const double change = value / slope;
      x -= change;
      if (std::abs(change) < 1e-16) break;
    }
    rule.x[static_cast<size_t>(i)] = x;
    rule.w[static_cast<size_t>(i)] = 2 / ((1 - x * x) * slope * slope);
  }
  return rule;
}

struct Panel {
  double integral, magnitude;  // of f and of |f|
};

Panel panel(const std::function<double(double)>& f, double from, double to) {
  static const GaussLegendre rule = make_gauss_legendre();
  const double centre = 0.5 * (from + to), half = 0.5 * (to - from);
  Panel sum{0, 0};
  for (size_t i = 0; i < kNodes; ++i) {
    const double value = rule.w[i] * f(centre + half * rule.x[i]);
    sum.integral += value;
    sum.magnitude += std::abs(value);
  }
  return {sum.integral * half, sum.magnitude * std::abs(half)};
}

double refine(const std::function<double(double)>& f, double from, double to, const Panel& coarse,
              double tolerance, int depth) {
  const double centre = 0.5 * (from + to);
  const Panel left = panel(f, from, centre), right = panel(f, centre, to);
  const double sum = left.integral + right.integral;
  if (depth == 0 || std::abs(sum - coarse.integral) <= tolerance) return sum;
  return refine(f, from, centre, left, tolerance, depth - 1) +
         refine(f, centre, to, right, tolerance, depth - 1);
}

double lagrange_basis(const std::vector<double>& nodes, size_t j, double z) {
  double product = 1;
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (k != j) product *= (z - nodes[k]) / (nodes[j] - nodes[k]);
  }
  return product;
}

// Gauss-Legendre panels, halved where two halves do not agree with the whole.
double integrate(const std::function<double(double)>& f, double from, double to) {
  const Panel coarse = panel(f, from, to);
  constexpr int kDeepest = 30;
  return refine(f, from, to, coarse, 1e-15 * coarse.magnitude, kDeepest);
}

}  // namespace

std::vector<double> lagrange_integrals(const std::vector<double>& nodes, double from, double to,
                                       const std::function<double(double)>& z,
                                       const std::function<double(double)>& weight) {
  std::vector<double> integrals;
  for (size_t j = 0; j < nodes.size(); ++j) {
    integrals.push_back(
        integrate([&](double y) { return weight(y) * lagrange_basis(nodes, j, z(y)); }, from, to));
  }
  return integrals;
}

}  // namespace bespoke
