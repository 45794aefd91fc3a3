#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "plain_field.h"

// Runge-Kutta and Adams-Bashforth as textbooks write them, on plain numbers: what the library's
// Non-Stationary solvers are compared with. Shares no code with the library's solvers.
namespace bespoke::native {

using testing::Array;
using testing::DataAndNoise;

// What a native method runs on: one field, one path, one grid.
struct Problem {
  const testing::PlainField& field;
  const Schedule& schedule;
  std::vector<double> grid;
  int nfe;
  bool lower_order_final;

  size_t steps() const { return grid.size() - 1; }

  Array velocity(double t, const Array& x) const { return field.velocity(t, x); }

  // From u = alpha' D + sigma' E and x = alpha D + sigma E.
  DataAndNoise predict(double t, const Array& x) const {
    const SchedulePoint p = schedule.at(t);
    const Array u = velocity(t, x);
    const double w = p.sigma * p.alpha_dot - p.alpha * p.sigma_dot;
    return {(p.sigma * u - p.sigma_dot * x) / w, (p.alpha_dot * x - p.alpha * u) / w};
  }

  bool velocity_is_infinite(double t) const { return !std::isfinite(schedule.at(t).sigma_dot); }
};

// dy/dz as a function of z and y, and one step of a method from z to next.
using Slope = std::function<Array(double z, const Array& y)>;
using Step = Array (*)(const Slope& slope, double z, double next, const Array& y);

inline Array euler_step(const Slope& slope, double z, double next, const Array& y) {
  return y + (next - z) * slope(z, y);
}

inline Array midpoint_step(const Slope& slope, double z, double next, const Array& y) {
  const double h = next - z;
  return y + h * slope(z + h / 2, y + h / 2 * slope(z, y));
}

inline Array heun_step(const Slope& slope, double z, double next, const Array& y) {
  const double h = next - z;
  const Array k1 = slope(z, y);
  const Array k2 = slope(next, y + h * k1);
  return y + h / 2 * (k1 + k2);
}

inline Array ralston_step(const Slope& slope, double z, double next, const Array& y) {
  const double h = next - z;
  const Array k1 = slope(z, y);
  const Array k2 = slope(z + 2 * h / 3, y + 2 * h / 3 * k1);
  return y + h / 4 * (k1 + 3 * k2);
}

inline Array rk3_step(const Slope& slope, double z, double next, const Array& y) {
  const double h = next - z;
  const Array k1 = slope(z, y);
  const Array k2 = slope(z + h / 2, y + h / 2 * k1);
  const Array k3 = slope(next, y - h * k1 + 2 * h * k2);
  return y + h / 6 * (k1 + 4 * k2 + k3);
}

inline Array rk4_step(const Slope& slope, double z, double next, const Array& y) {
  const double h = next - z;
  const Array k1 = slope(z, y);
  const Array k2 = slope(z + h / 2, y + h / 2 * k1);
  const Array k3 = slope(z + h / 2, y + h / 2 * k2);
  const Array k4 = slope(next, y + h * k3);
  return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
}

// A one-step method with what decides how it avoids an infinite velocity.
struct OneStepMethod {
  Step step;
  int stages;
  bool evaluates_at_end;
};
constexpr OneStepMethod kEuler = {euler_step, 1, false};
constexpr OneStepMethod kMidpoint = {midpoint_step, 2, false};
constexpr OneStepMethod kHeun = {heun_step, 2, true};
constexpr OneStepMethod kRalston = {ralston_step, 2, false};
constexpr OneStepMethod kRk3 = {rk3_step, 3, true};
constexpr OneStepMethod kRk4 = {rk4_step, 4, true};

inline Array runge_kutta(const Problem& problem, const OneStepMethod& method, Array x) {
  const Slope slope = [&](double t, const Array& y) { return problem.velocity(t, y); };
  for (size_t i = 0; i < problem.steps(); ++i) {
    const double t = problem.grid[i], next = problem.grid[i + 1];
    if (!(method.evaluates_at_end && problem.velocity_is_infinite(next))) {
      x = method.step(slope, t, next, x);
      continue;
    }
    const double h = (next - t) / method.stages;
    for (int j = 0; j < method.stages; ++j) x = euler_step(slope, t + j * h, t + (j + 1) * h, x);
  }
  return x;
}

// The coefficients, lowest power first, of the polynomial that is one at nodes[j] and zero at the
// other nodes.
inline std::vector<double> lagrange_polynomial(const std::vector<double>& nodes, size_t j) {
  std::vector<double> coefficients = {1};
  for (size_t m = 0; m < nodes.size(); ++m) {
    if (m == j) continue;
    const double scale = 1 / (nodes[j] - nodes[m]);
    std::vector<double> product(coefficients.size() + 1, 0.0);
    for (size_t k = 0; k < coefficients.size(); ++k) {
      product[k + 1] += scale * coefficients[k];
      product[k] -= scale * nodes[m] * coefficients[k];
    }
    coefficients = product;
  }
  return coefficients;
}

// Nodes in units of the step from `from`, so that the step is [0, 1] and powers stay tame.
inline std::vector<double> in_units_of_step(std::vector<double> nodes, double from, double h) {
  for (double& node : nodes) node = (node - from) / h;
  return nodes;
}

// For each node, the integral of its Lagrange polynomial over [from, to].
inline std::vector<double> adams_weights(const std::vector<double>& nodes, double from, double to) {
  const std::vector<double> units = in_units_of_step(nodes, from, to - from);
  std::vector<double> weights;
  for (size_t j = 0; j < nodes.size(); ++j) {
    double integral = 0, power = 1;
    for (const double c : lagrange_polynomial(units, j)) integral += c / power++;
    weights.push_back((to - from) * integral);
  }
  return weights;
}

inline Array adams_bashforth(const Problem& problem, size_t order, Array x) {
  std::vector<double> times;
  std::vector<Array> slopes;
  for (size_t i = 0; i < problem.steps(); ++i) {
    times.push_back(problem.grid[i]);
    slopes.push_back(problem.velocity(problem.grid[i], x));
    if (times.size() > order) {
      times.erase(times.begin());
      slopes.erase(slopes.begin());
    }
    const auto weights = adams_weights(times, problem.grid[i], problem.grid[i + 1]);
    for (size_t j = 0; j < slopes.size(); ++j) x = x + weights[j] * slopes[j];
  }
  return x;
}

}  // namespace bespoke::native
