#include "bespoke/solver/multistep.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bespoke/base/error.h"
#include "bespoke/solver/trace.h"
#include "quadrature.h"

namespace bespoke {

void MultistepRule::validate() const {
  const size_t m = a.size();
  if (m == 0 || b.size() != m) {
    throw bad_input("a multistep rule needs as many a as b, found {} and {}", a.size(), b.size());
  }
  double states = 0, slope = 0;
  for (size_t j = 0; j < m; ++j) {
    const double lag = static_cast<double>(m - 1 - j);
    states += a[j];
    slope += b[j] - lag * a[j];
  }
  if (!(std::abs(states - 1) <= 1e-9 && std::abs(slope - 1) <= 1e-9)) {
    throw bad_input(
        "the multistep rule is not consistent: sum a = {} (must be 1), sum b - sum lag a = {} "
        "(must "
        "be 1)",
        states, slope);
  }
}

namespace {

struct History {
  std::vector<double> t;
  std::vector<LinearForm> x, u;
};

// x plus the integral of the polynomial through the last `order` velocities.
LinearForm adams_step(const History& history, size_t order, double next_time) {
  const size_t last = history.t.size() - 1;
  std::vector<double> nodes;
  for (size_t k = 0; k < order; ++k) nodes.push_back(history.t[last - k]);
  const auto weights = lagrange_integrals(
      nodes, history.t[last], next_time, [](double t) { return t; }, [](double) { return 1.0; });
  LinearForm next = history.x[last];
  for (size_t k = 0; k < order; ++k) next += weights[k] * history.u[last - k];
  return next;
}

LinearForm stationary_step(const History& history, const MultistepRule& rule, double next_time) {
  const size_t m = rule.a.size(), first = history.t.size() - m;
  const double h = next_time - history.t.back();
  LinearForm next;
  for (size_t j = 0; j < m; ++j) {
    next += rule.a[j] * history.x[first + j];
    next += h * rule.b[j] * history.u[first + j];
  }
  return next;
}

template <class Step>
NsSolver walk(const std::vector<double>& grid, Step step) {
  Trace trace;
  History history;
  LinearForm x = trace.start();
  for (size_t i = 0; i + 1 < grid.size(); ++i) {
    history.t.push_back(grid[i]);
    history.x.push_back(x);
    history.u.push_back(trace.evaluate(grid[i], x).u);
    x = step(history, grid[i + 1]);
  }
  return trace.finish(grid.back(), x);
}

}  // namespace

NsSolver adams_bashforth(int order, const std::vector<double>& grid) {
  return walk(grid, [order](const History& history, double next_time) {
    return adams_step(history, std::min<size_t>(static_cast<size_t>(order), history.t.size()),
                      next_time);
  });
}

NsSolver multistep(const MultistepRule& rule, const std::vector<double>& grid) {
  rule.validate();
  return walk(grid, [&rule](const History& history, double next_time) {
    const bool full = history.t.size() >= rule.a.size();
    return full ? stationary_step(history, rule, next_time)
                : adams_step(history, history.t.size(), next_time);
  });
}

}  // namespace bespoke
