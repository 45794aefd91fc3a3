#include "exponential.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "bespoke/base/error.h"
#include "gaussian_step.h"
#include "quadrature.h"

namespace bespoke {

namespace {

bool is_noise(Prediction form) {
  if (form != Prediction::noise && form != Prediction::data) {
    throw usage_error("exponential solvers work on noise or data predictions, found '{}'",
                      to_string(form));
  }
  return form == Prediction::noise;
}

// The variable a multistep polynomial is in, at a node and along the integration variable.
struct StepVariable {
  double from, to;                       // range of integration
  std::function<double(double)> z;       // polynomial variable there
  std::function<double(double)> weight;  // measure
  double prefactor;
};

double node_value(PolynomialIn variable, const Node& node) {
  switch (variable) {
    case PolynomialIn::lambda:
      return node.lambda;
    case PolynomialIn::rho:
      return node.rho();
    case PolynomialIn::t:
      return node.t;
  }
  throw std::logic_error("variable out of range");
}

StepVariable step_variable(const Schedule& schedule, PolynomialIn variable, bool noise,
                           const Node& from, const Node& to) {
  const auto same = [](double y) { return y; };
  const auto one = [](double) { return 1.0; };
  if (variable == PolynomialIn::rho) return {from.rho(), to.rho(), same, one, to.alpha};
  if (variable == PolynomialIn::t) {
    const auto time = [&schedule](double rho) { return schedule.time_at_snr(1 / rho); };
    return {from.rho(), to.rho(), time, one, to.alpha};
  }
  // alpha' drho = -sigma' exp(lambda' - lambda) dlambda; sigma' dsnr = alpha' exp(lambda -
  // lambda').
  const double end = to.lambda;
  if (noise) {
    return {from.lambda, end, same, [end](double l) { return -std::exp(end - l); }, to.sigma};
  }
  return {from.lambda, end, same, [end](double l) { return std::exp(l - end); }, to.alpha};
}

// The linear factor psi'/psi times x, plus weights times the past predictions.
LinearForm adams_step(const Schedule& schedule, PolynomialIn variable, bool noise,
                      const std::vector<Node>& nodes, const std::vector<LinearForm>& predictions,
                      size_t order, const LinearForm& x, const Node& to) {
  const size_t last = predictions.size() - 1;
  const Node& from = nodes[last];
  std::vector<double> values;
  for (size_t k = 0; k < order; ++k) values.push_back(node_value(variable, nodes[last - k]));
  const StepVariable s = step_variable(schedule, variable, noise, from, to);
  const auto weights = lagrange_integrals(values, s.from, s.to, s.z, s.weight);
  LinearForm next = (noise ? to.alpha / from.alpha : to.sigma / from.sigma) * x;
  for (size_t k = 0; k < order; ++k) {
    next += s.prefactor * weights[k] * predictions[last - k];
  }
  return next;
}

LinearForm runge_kutta_step(const Schedule& schedule, Trace& trace, const ButcherTableau& tableau,
                            bool noise, const Node& from, const Node& to, const LinearForm& x) {
  const auto variable = [noise](const Node& n) { return noise ? n.rho() : n.snr(); };
  const auto psi = [noise](const Node& n) { return noise ? n.alpha : n.sigma; };
  const double h = variable(to) - variable(from);
  const LinearForm scaled = (1 / psi(from)) * x;
  std::vector<LinearForm> predictions;
  LinearForm next = scaled;
  for (size_t j = 0; j < tableau.b.size(); ++j) {
    const double value = variable(from) + tableau.c[j] * h;
    const Node node = tableau.c[j] == 0 ? from
                      : tableau.c[j] == 1
                          ? to
                          : Node(schedule, schedule.time_at_snr(noise ? 1 / value : value));
    LinearForm stage = scaled;
    for (size_t k = 0; k < j; ++k) stage += h * tableau.a[j][k] * predictions[k];
    // Stage 0 is x itself; scaling it down and up again would not give back exactly x.
    const Evaluation evaluation = trace.evaluate(node.t, j == 0 ? x : psi(node) * stage);
    predictions.push_back(noise ? evaluation.noise : evaluation.data);
    next += h * tableau.b[j] * predictions[j];
  }
  return psi(to) * next;
}

}  // namespace

NsSolver exponential_multistep(const Schedule& schedule, const std::vector<double>& grid,
                               Prediction form, PolynomialIn variable,
                               const MultistepOptions& options) {
  const bool noise = is_noise(form);
  if (!noise && variable != PolynomialIn::lambda) {
    throw usage_error("polynomials in rho or t are for noise predictions");
  }
  const size_t steps = grid.size() - 1;
  Trace trace(&schedule);
  std::vector<Node> nodes;
  std::vector<LinearForm> predictions;
  LinearForm x = trace.start();
  for (size_t i = 0; i < steps; ++i) {
    nodes.emplace_back(schedule, grid[i]);
    const Node to(schedule, grid[i + 1]);
    const Evaluation evaluation = trace.evaluate(grid[i], x);
    predictions.push_back(noise ? evaluation.noise : evaluation.data);

    const size_t order =
        usable_order(options, i, steps, [&](size_t k) { return node_value(variable, nodes[k]); });
    const bool infinite = variable == PolynomialIn::lambda
                              ? !std::isfinite(log_snr_step(nodes[i], to))
                              : !std::isfinite(nodes[i].rho());
    x = infinite || order == 1
            ? first_order_step(nodes[i], to, x, evaluation.data)
            : adams_step(schedule, variable, noise, nodes, predictions, order, x, to);
  }
  return trace.finish(grid.back(), x);
}

NsSolver exponential_runge_kutta(const Schedule& schedule, const std::vector<double>& grid,
                                 Prediction form, const std::vector<ButcherTableau>& tableaus,
                                 bool infinite_at_end) {
  const bool noise = is_noise(form);
  Trace trace(&schedule);
  LinearForm x = trace.start();
  for (size_t i = 0; i + 1 < grid.size(); ++i) {
    const Node from(schedule, grid[i]), to(schedule, grid[i + 1]);
    const bool at_infinity = infinite_at_end && i + 2 == grid.size() && tableaus[i].c.back() == 1;
    const bool infinite = at_infinity || !std::isfinite(noise ? from.rho() : to.snr());
    x = infinite ? first_order_substeps(schedule, trace, tableaus[i].stages(), from, to, x)
                 : runge_kutta_step(schedule, trace, tableaus[i], noise, from, to, x);
  }
  return trace.finish(grid.back(), x);
}

NsSolver ipndm(const Schedule& schedule, const std::vector<double>& grid, int order) {
  static const std::vector<std::vector<double>> kWeights = {
      {1},
      {3. / 2, -1. / 2},
      {23. / 12, -16. / 12, 5. / 12},
      {55. / 24, -59. / 24, 37. / 24, -9. / 24}};
  Trace trace(&schedule);
  std::vector<LinearForm> noises;
  LinearForm x = trace.start();
  for (size_t i = 0; i + 1 < grid.size(); ++i) {
    const Node from(schedule, grid[i]), to(schedule, grid[i + 1]);
    const Evaluation evaluation = trace.evaluate(grid[i], x);
    noises.push_back(evaluation.noise);
    if (from.alpha == 0) {
      x = first_order_step(from, to, x, evaluation.data);
      continue;
    }
    const size_t length = std::min<size_t>(static_cast<size_t>(order), noises.size());
    LinearForm noise;
    for (size_t k = 0; k < length; ++k) noise += kWeights[length - 1][k] * noises[i - k];
    x = (to.alpha / from.alpha) * x + (to.sigma - to.alpha * from.sigma / from.alpha) * noise;
  }
  return trace.finish(grid.back(), x);
}

}  // namespace bespoke
