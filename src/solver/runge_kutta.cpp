#include "bespoke/solver/runge_kutta.h"

#include <cmath>
#include <numeric>

#include "bespoke/base/error.h"
#include "bespoke/solver/trace.h"

namespace bespoke {

static bool near(double value, double expected) { return std::abs(value - expected) < 1e-9; }

void ButcherTableau::validate() const {
  const size_t stages = b.size();
  if (stages == 0 || a.size() != stages || c.size() != stages) {
    throw bad_input(
        "a Butcher tableau needs as many rows of a as entries in b and c, found {}, {}, {}",
        a.size(), b.size(), c.size());
  }
  const double weight = std::accumulate(b.begin(), b.end(), 0.0);
  if (!near(weight, 1)) throw bad_input("the weights b sum to {}, they must sum to 1", weight);
  for (size_t j = 0; j < stages; ++j) {
    if (a[j].size() != j) {
      throw bad_input("row {} of a has {} entries, an explicit method has {}", j, a[j].size(), j);
    }
    const double row = std::accumulate(a[j].begin(), a[j].end(), 0.0);
    if (!near(row, c[j])) throw bad_input("row {} of a sums to {}, c is {}", j, row, c[j]);
    if (!(c[j] >= 0 && c[j] <= 1) || (j > 0 && c[j] < c[j - 1])) {
      throw bad_input(
          "node c[{}] = {} is out of order; the nodes of a Non-Stationary solver rise from 0 to 1",
          j, c[j]);
    }
  }
}

ButcherTableau euler_tableau() { return {{{}}, {1}, {0}}; }
ButcherTableau midpoint_tableau() { return {{{}, {0.5}}, {0, 1}, {0, 0.5}}; }
ButcherTableau heun_tableau() { return {{{}, {1}}, {0.5, 0.5}, {0, 1}}; }
ButcherTableau ralston_tableau() { return {{{}, {2. / 3}}, {0.25, 0.75}, {0, 2. / 3}}; }
ButcherTableau rk3_tableau() {
  return {{{}, {0.5}, {-1, 2}}, {1. / 6, 2. / 3, 1. / 6}, {0, 0.5, 1}};
}
ButcherTableau rk4_tableau() {
  return {{{}, {0.5}, {0, 0.5}, {0, 0, 1}}, {1. / 6, 1. / 3, 1. / 3, 1. / 6}, {0, 0.5, 0.5, 1}};
}

namespace {

LinearForm tableau_step(Trace& trace, const ButcherTableau& tableau, double from, double to,
                        const LinearForm& x) {
  const double h = to - from;
  std::vector<LinearForm> slopes;
  LinearForm next = x;
  for (size_t j = 0; j < tableau.b.size(); ++j) {
    LinearForm stage = x;
    for (size_t k = 0; k < j; ++k) stage += h * tableau.a[j][k] * slopes[k];
    const double t = tableau.c[j] == 1 ? to : from + tableau.c[j] * h;
    slopes.push_back(trace.evaluate(t, stage).u);
    next += h * tableau.b[j] * slopes[j];
  }
  return next;
}

LinearForm euler_substeps(Trace& trace, int count, double from, double to, LinearForm x) {
  const double h = (to - from) / count;
  for (int j = 0; j < count; ++j) x += h * trace.evaluate(from + j * h, x).u;
  return x;
}

}  // namespace

NsSolver runge_kutta(const ButcherTableau& tableau, const std::vector<double>& grid,
                     bool infinite_at_end) {
  tableau.validate();
  const bool substeps = infinite_at_end && tableau.c.back() == 1;
  const size_t steps = grid.size() - 1;
  Trace trace;
  LinearForm x = trace.start();
  for (size_t i = 0; i < steps; ++i) {
    x = substeps && i + 1 == steps
            ? euler_substeps(trace, tableau.stages(), grid[i], grid[i + 1], x)
            : tableau_step(trace, tableau, grid[i], grid[i + 1], x);
  }
  return trace.finish(grid.back(), x);
}

}  // namespace bespoke
