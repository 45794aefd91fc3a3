#pragma once

#include <cmath>
#include <vector>

#include "native_exponential.h"

// DPM-Solver, DPM-Solver++ and UniPC as published.
namespace bespoke::native {

// The orders of the singlestep solvers' steps: as many full ones as fit, and the rest at the end.
inline std::vector<int> singlestep_orders(int order, int nfe) {
  std::vector<int> orders(static_cast<size_t>(nfe / order), order);
  const int rest = nfe % order;
  if (rest > 0) {
    orders.push_back(rest);
  } else if (order == 3) {
    orders.back() = 2;
    orders.push_back(1);
  }
  return orders;
}

inline Array dpm_solver_2(const Problem& problem, const Node& here, const Node& next,
                          const Array& x) {
  constexpr double r1 = 0.5;
  const double h = next.lambda - here.lambda;
  const Node s(problem.schedule, problem.schedule.time_at_lambda(here.lambda + r1 * h));
  const Array e = problem.predict(here.t, x).noise;
  const Array x_s = s.alpha / here.alpha * x - s.sigma * std::expm1(r1 * h) * e;
  const Array e_s = problem.predict(s.t, x_s).noise;
  return next.alpha / here.alpha * x - next.sigma * std::expm1(h) * e -
         next.sigma * std::expm1(h) / (2 * r1) * (e_s - e);
}

inline Array dpm_solver_3(const Problem& problem, const Node& here, const Node& next,
                          const Array& x) {
  constexpr double r1 = 1. / 3, r2 = 2. / 3;
  const double h = next.lambda - here.lambda;
  const Node s1(problem.schedule, problem.schedule.time_at_lambda(here.lambda + r1 * h));
  const Node s2(problem.schedule, problem.schedule.time_at_lambda(here.lambda + r2 * h));
  const Array e = problem.predict(here.t, x).noise;
  const Array x1 = s1.alpha / here.alpha * x - s1.sigma * std::expm1(r1 * h) * e;
  const Array d1 = problem.predict(s1.t, x1).noise - e;
  const Array x2 = s2.alpha / here.alpha * x - s2.sigma * std::expm1(r2 * h) * e -
                   s2.sigma * r2 / r1 * (std::expm1(r2 * h) / (r2 * h) - 1) * d1;
  const Array d2 = problem.predict(s2.t, x2).noise - e;
  return next.alpha / here.alpha * x - next.sigma * std::expm1(h) * e -
         next.sigma / r2 * (std::expm1(h) / h - 1) * d2;
}

inline Array dpm_solver_pp_2(const Problem& problem, const Node& here, const Node& next,
                             const Array& x) {
  constexpr double r1 = 0.5;
  const double h = next.lambda - here.lambda;
  const Node s(problem.schedule, problem.schedule.time_at_lambda(here.lambda + r1 * h));
  const Array d = problem.predict(here.t, x).data;
  const Array x_s = s.sigma / here.sigma * x - s.alpha * std::expm1(-r1 * h) * d;
  const Array d_s = problem.predict(s.t, x_s).data;
  return next.sigma / here.sigma * x - next.alpha * std::expm1(-h) * d -
         next.alpha * std::expm1(-h) / (2 * r1) * (d_s - d);
}

inline Array dpm_solver_pp_3(const Problem& problem, const Node& here, const Node& next,
                             const Array& x) {
  constexpr double r1 = 1. / 3, r2 = 2. / 3;
  const double h = next.lambda - here.lambda;
  const Node s1(problem.schedule, problem.schedule.time_at_lambda(here.lambda + r1 * h));
  const Node s2(problem.schedule, problem.schedule.time_at_lambda(here.lambda + r2 * h));
  const Array d = problem.predict(here.t, x).data;
  const Array x1 = s1.sigma / here.sigma * x - s1.alpha * std::expm1(-r1 * h) * d;
  const Array d1 = problem.predict(s1.t, x1).data - d;
  const Array x2 = s2.sigma / here.sigma * x - s2.alpha * std::expm1(-r2 * h) * d +
                   r2 / r1 * s2.alpha * (std::expm1(-r2 * h) / (r2 * h) + 1) * d1;
  const Array d2 = problem.predict(s2.t, x2).data - d;
  const double phi1 = std::expm1(-h), phi2 = phi1 / h + 1;
  return next.sigma / here.sigma * x - next.alpha * phi1 * d + next.alpha * phi2 / r2 * d2;
}

inline Array dpm_singlestep(const Problem& problem, const std::vector<int>& orders, Form form,
                            Array x) {
  const bool noise = form == Form::noise;
  for (size_t i = 0; i < problem.steps(); ++i) {
    const Node here(problem.schedule, problem.grid[i]), next(problem.schedule, problem.grid[i + 1]);
    if (orders[i] == 1 || !std::isfinite(next.lambda - here.lambda)) {
      x = ddim_substeps(problem, orders[i], here.t, next.t, x);
    } else if (orders[i] == 2) {
      x = noise ? dpm_solver_2(problem, here, next, x) : dpm_solver_pp_2(problem, here, next, x);
    } else {
      x = noise ? dpm_solver_3(problem, here, next, x) : dpm_solver_pp_3(problem, here, next, x);
    }
  }
  return x;
}

// Predictions with finite log-SNR, newest first.
struct PredictionHistory {
  std::vector<double> lambdas;
  std::vector<Array> values;

  void add(const Node& node, const Array& prediction) {
    if (!std::isfinite(node.lambda)) return;
    lambdas.insert(lambdas.begin(), node.lambda);
    values.insert(values.begin(), prediction);
  }
};

// D1 and D2: the slopes of the last predictions in lambda, in units of the step h.
struct Slopes {
  Array d1_0, d1, d2;
};

inline Slopes slopes_of(const PredictionHistory& history, size_t order, double h) {
  Slopes slopes;
  const double r0 = (history.lambdas[0] - history.lambdas[1]) / h;
  slopes.d1_0 = (history.values[0] - history.values[1]) / r0;
  if (order == 2) return slopes;
  const double r1 = (history.lambdas[1] - history.lambdas[2]) / h;
  const Array d1_1 = (history.values[1] - history.values[2]) / r1;
  slopes.d1 = slopes.d1_0 + r0 / (r0 + r1) * (slopes.d1_0 - d1_1);
  slopes.d2 = (slopes.d1_0 - d1_1) / (r0 + r1);
  return slopes;
}

// The step of DPM-Solver++ from the newest value in `history` to `next`.
inline Array data_multistep_step(size_t order, const Node& here, const Node& next,
                                 const PredictionHistory& history, const Array& x) {
  const double h = next.lambda - here.lambda;
  const double phi1 = std::expm1(-h), phi2 = phi1 / h + 1, phi3 = phi2 / h - 0.5;
  const Array first = next.sigma / here.sigma * x - next.alpha * phi1 * history.values[0];
  if (order == 1) return first;
  const Slopes slopes = slopes_of(history, order, h);
  if (order == 2) return first - next.alpha * phi1 * slopes.d1_0 / 2;
  return first + next.alpha * phi2 * slopes.d1 - next.alpha * phi3 * slopes.d2;
}

// And that of DPM-Solver.
inline Array noise_multistep_step(size_t order, const Node& here, const Node& next,
                                  const PredictionHistory& history, const Array& x) {
  const double h = next.lambda - here.lambda;
  const double phi1 = std::expm1(h), phi2 = phi1 / h - 1, phi3 = phi2 / h - 0.5;
  const Array first = next.alpha / here.alpha * x - next.sigma * phi1 * history.values[0];
  if (order == 1) return first;
  const Slopes slopes = slopes_of(history, order, h);
  if (order == 2) return first - next.sigma * phi1 * slopes.d1_0 / 2;
  return first - next.sigma * phi2 * slopes.d1 - next.sigma * phi3 * slopes.d2;
}

inline Array dpm_multistep(const Problem& problem, size_t order, Form form, Array x) {
  PredictionHistory history;
  for (size_t i = 0; i < problem.steps(); ++i) {
    const Node here(problem.schedule, problem.grid[i]), next(problem.schedule, problem.grid[i + 1]);
    const DataAndNoise prediction = problem.predict(here.t, x);
    history.add(here, form == Form::noise ? prediction.noise : prediction.data);
    if (!std::isfinite(next.lambda - here.lambda)) {
      x = ddim_step(next, prediction);
      continue;
    }
    const size_t allowed = order_at(problem, i, order, history.values.size());
    x = form == Form::noise ? noise_multistep_step(allowed, here, next, history, x)
                            : data_multistep_step(allowed, here, next, history, x);
  }
  return x;
}

enum class BVariant { bh1, bh2 };

// Along the first row.
inline double determinant(const std::vector<std::vector<double>>& matrix) {
  if (matrix.size() == 1) return matrix[0][0];
  double sum = 0;
  for (size_t k = 0; k < matrix.size(); ++k) {
    std::vector<std::vector<double>> minor(matrix.begin() + 1, matrix.end());
    for (auto& row : minor) row.erase(row.begin() + static_cast<std::ptrdiff_t>(k));
    sum += (k % 2 == 0 ? 1 : -1) * matrix[0][k] * determinant(minor);
  }
  return sum;
}

// What the predictor and the corrector of one UniPC step share: R rho = b, r_k in units of the
// step.
struct UniPcStep {
  size_t order;
  double h_phi_1, b_h;
  std::vector<std::vector<double>> matrix;
  std::vector<double> right;
  Array first_order;          // (sigma'/sigma) x - alpha' expm1(-h) D
  std::vector<Array> slopes;  // (D_{i-k} - D_i) / r_k
  Array data;
};

inline UniPcStep unipc_step(BVariant variant, size_t order, const Node& here, const Node& next,
                            const PredictionHistory& history, const Array& x) {
  const double hh = here.lambda - next.lambda;
  UniPcStep step;
  step.order = order;
  step.data = history.values[0];
  step.h_phi_1 = std::expm1(hh);
  step.b_h = variant == BVariant::bh1 ? hh : step.h_phi_1;
  step.first_order = next.sigma / here.sigma * x - next.alpha * step.h_phi_1 * step.data;
  std::vector<double> r;
  for (size_t k = 1; k < order; ++k) {
    r.push_back((history.lambdas[k] - here.lambda) / -hh);
    step.slopes.push_back((history.values[k] - step.data) / r.back());
  }
  r.push_back(1);
  double h_phi_k = step.h_phi_1 / hh - 1, factorial = 1;
  for (size_t k = 1; k <= order; ++k) {
    step.matrix.emplace_back();
    for (const double ratio : r) {
      step.matrix.back().push_back(std::pow(ratio, static_cast<double>(k - 1)));
    }
    step.right.push_back(h_phi_k * factorial / step.b_h);
    factorial *= static_cast<double>(k + 1);
    h_phi_k = h_phi_k / hh - 1 / factorial;
  }
  return step;
}

// The first `count` equations in as many unknowns, by Cramer's rule.
inline std::vector<double> solve_first(const UniPcStep& step, size_t count) {
  std::vector<double> solution;
  std::vector<std::vector<double>> square;
  for (size_t i = 0; i < count; ++i) {
    square.emplace_back(step.matrix[i].begin(),
                        step.matrix[i].begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (size_t k = 0; k < count; ++k) {
    auto replaced = square;
    for (size_t i = 0; i < count; ++i) replaced[i][k] = step.right[i];
    solution.push_back(determinant(replaced) / determinant(square));
  }
  return solution;
}

inline Array unipc_predict(const UniPcStep& step, const Node& next) {
  if (step.order == 1) return step.first_order;
  // With a single earlier value the published solver sets its weight to one half.
  const std::vector<double> rho =
      step.order == 2 ? std::vector<double>{0.5} : solve_first(step, step.order - 1);
  Array sum = 0 * step.data;
  for (size_t k = 0; k < step.slopes.size(); ++k) sum = sum + rho[k] * step.slopes[k];
  return step.first_order - next.alpha * step.b_h * sum;
}

inline Array unipc_correct(const UniPcStep& step, const Node& next, const Array& next_data) {
  // As in the predictor, a single weight is one half.
  const std::vector<double> rho =
      step.order == 1 ? std::vector<double>{0.5} : solve_first(step, step.order);
  Array sum = rho.back() * (next_data - step.data);
  for (size_t k = 0; k < step.slopes.size(); ++k) sum = sum + rho[k] * step.slopes[k];
  return step.first_order - next.alpha * step.b_h * sum;
}

inline Array unipc(const Problem& problem, size_t order, BVariant variant, Array x) {
  PredictionHistory history;
  UniPcStep step;
  bool correct = false;  // whether x is a prediction that the next evaluation improves
  for (size_t i = 0; i < problem.steps(); ++i) {
    const Node here(problem.schedule, problem.grid[i]), next(problem.schedule, problem.grid[i + 1]);
    const DataAndNoise prediction = problem.predict(here.t, x);
    if (correct) x = unipc_correct(step, here, prediction.data);
    history.add(here, prediction.data);
    correct = std::isfinite(next.lambda - here.lambda);
    if (!correct) {
      x = ddim_step(next, prediction);
      continue;
    }
    step = unipc_step(variant, order_at(problem, i, order, history.values.size()), here, next,
                      history, x);
    x = unipc_predict(step, next);
  }
  return x;
}

}  // namespace bespoke::native
