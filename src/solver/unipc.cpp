#include "unipc.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gaussian_step.h"

namespace bespoke {

namespace {

using Vector = std::vector<double>;

// A small dense system by elimination with partial pivoting.
Vector solve(std::vector<Vector> matrix, Vector right) {
  const size_t n = right.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::abs(matrix[i][k]) > std::abs(matrix[pivot][k])) pivot = i;
    }
    std::swap(matrix[k], matrix[pivot]);
    std::swap(right[k], right[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = matrix[i][k] / matrix[k][k];
      for (size_t j = k; j < n; ++j) matrix[i][j] -= factor * matrix[k][j];
      right[i] -= factor * right[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) right[k] -= matrix[k][j] * right[j];
    right[k] /= matrix[k][k];
  }
  return right;
}

// Everything predictor and corrector of one step share.
struct Step {
  double scale;                    // alpha' B(h)
  LinearForm base;                 // the first-order result
  Vector ratios;                   // (lambda_{i-k} - lambda_i) / h for k = 1 ... p-1, then 1
  std::vector<LinearForm> slopes;  // (D_{i-k} - D_i) / ratio, k = 1 ... p-1
  Vector moments;                  // right-hand side of the order conditions

  // Weights rho with sum_k rho_k ratio_k^m = moment_m for the first `count` ratios and moments.
  Vector weights(const Vector& nodes) const {
    std::vector<Vector> matrix(nodes.size(), Vector(nodes.size()));
    for (size_t m = 0; m < nodes.size(); ++m) {
      for (size_t k = 0; k < nodes.size(); ++k) {
        matrix[m][k] = std::pow(nodes[k], static_cast<double>(m));
      }
    }
    return solve(matrix,
                 Vector(moments.begin(), moments.begin() + static_cast<long>(nodes.size())));
  }
};

Step make_step(const PredictionHistory& history, size_t i, size_t order, const Node& to,
               const LinearForm& x, UniPcVariant variant) {
  const Node& from = history.nodes[i];
  const double h = log_snr_step(from, to), hh = -h;
  const double b = variant == UniPcVariant::bh1 ? hh : std::expm1(hh);
  Step step{to.alpha * b, first_order_step(from, to, x, history.predictions[i]), {}, {}, {}};
  for (size_t k = 1; k < order; ++k) {
    step.ratios.push_back(log_snr_step(from, history.nodes[i - k]) / h);
    step.slopes.push_back((1 / step.ratios.back()) *
                          (history.predictions[i - k] - history.predictions[i]));
  }
  step.ratios.push_back(1);
  double phi = std::expm1(hh) / hh - 1, factorial = 1;
  for (size_t m = 1; m <= order; ++m) {
    step.moments.push_back(phi * factorial / b);
    factorial *= static_cast<double>(m + 1);
    phi = phi / hh - 1 / factorial;
  }
  return step;
}

LinearForm predictor(const Step& step) {
  const size_t history = step.slopes.size();
  if (history == 0) return step.base;
  // With one slope the published predictor takes 1/2, not the solution of its order condition.
  const Vector weights =
      history == 1 ? Vector{0.5} : step.weights({step.ratios.begin(), step.ratios.end() - 1});
  LinearForm sum;
  for (size_t k = 0; k < history; ++k) sum += weights[k] * step.slopes[k];
  return step.base - step.scale * sum;
}

LinearForm corrector(const Step& step, const LinearForm& change) {
  const size_t history = step.slopes.size();
  const Vector weights = history == 0 ? Vector{0.5} : step.weights(step.ratios);
  LinearForm sum = weights.back() * change;
  for (size_t k = 0; k < history; ++k) sum += weights[k] * step.slopes[k];
  return step.base - step.scale * sum;
}

}  // namespace

NsSolver unipc(const Schedule& schedule, const std::vector<double>& grid, UniPcVariant variant,
               const MultistepOptions& options) {
  const size_t steps = grid.size() - 1;
  Trace trace(&schedule);
  PredictionHistory history;
  LinearForm x = trace.start();
  bool correct = false;
  Step previous;
  for (size_t i = 0; i < steps; ++i) {
    history.nodes.emplace_back(schedule, grid[i]);
    history.predictions.push_back(trace.evaluate(grid[i], x).data);
    if (correct) x = corrector(previous, history.predictions[i] - history.predictions[i - 1]);

    const Node to(schedule, grid[i + 1]);
    const size_t order =
        usable_order(options, i, steps, [&](size_t k) { return history.nodes[k].lambda; });
    // A step of infinite length in lambda has no higher-order form: DDIM, and nothing to correct.
    correct = std::isfinite(log_snr_step(history.nodes[i], to));
    if (correct) {
      previous = make_step(history, i, order, to, x, variant);
      x = predictor(previous);
    } else {
      x = first_order_step(history.nodes[i], to, x, history.predictions[i]);
    }
  }
  return trace.finish(grid.back(), x);
}

}  // namespace bespoke
