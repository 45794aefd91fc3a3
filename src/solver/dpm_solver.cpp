#include "dpm_solver.h"

#include <algorithm>
#include <cmath>

#include "gaussian_step.h"

namespace bespoke {

namespace {

// One singlestep update. The data and noise forms differ in three functions only:
//   data:  psi = sigma, exponential(h) = -alpha expm1(-h), second(h) =  alpha (expm1(-h)/h + 1)
//   noise: psi = alpha, exponential(h) = -sigma expm1(h),  second(h) = -sigma (expm1(h)/h - 1)
class Singlestep {
 public:
  Singlestep(const Schedule& schedule, Trace& trace, Prediction form)
      : schedule_(schedule), trace_(trace), noise_(form == Prediction::noise) {}

  LinearForm step(int order, const Node& from, const Node& to, const LinearForm& x) {
    if (!std::isfinite(log_snr_step(from, to))) {
      return first_order_substeps(schedule_, trace_, order, from, to, x);
    }
    const LinearForm first = predict(from, x);
    if (order == 1) return linear(from, to, x) + exponential(from, to) * first;
    return order == 2 ? second_order(from, to, x, first) : third_order(from, to, x, first);
  }

 private:
  LinearForm second_order(const Node& from, const Node& to, const LinearForm& x,
                          const LinearForm& first) {
    constexpr double r1 = 0.5;
    const Node middle = between(from, to, r1);
    const LinearForm x1 = linear(from, middle, x) + exponential(from, middle) * first;
    const LinearForm change = predict(middle, x1) - first;
    return linear(from, to, x) + exponential(from, to) * first +
           exponential(from, to) / (2 * r1) * change;
  }

  LinearForm third_order(const Node& from, const Node& to, const LinearForm& x,
                         const LinearForm& first) {
    constexpr double r1 = 1. / 3, r2 = 2. / 3;
    const Node one = between(from, to, r1), two = between(from, to, r2);
    const LinearForm x1 = linear(from, one, x) + exponential(from, one) * first;
    const LinearForm change1 = predict(one, x1) - first;
    const LinearForm x2 = linear(from, two, x) + exponential(from, two) * first +
                          r2 / r1 * second(from, two) * change1;
    const LinearForm change2 = predict(two, x2) - first;
    return linear(from, to, x) + exponential(from, to) * first +
           1 / r2 * second(from, to) * change2;
  }

  Node between(const Node& from, const Node& to, double fraction) const {
    return {schedule_, schedule_.time_at_lambda(from.lambda + fraction * log_snr_step(from, to))};
  }
  LinearForm predict(const Node& node, const LinearForm& x) {
    const Evaluation evaluation = trace_.evaluate(node.t, x);
    return noise_ ? evaluation.noise : evaluation.data;
  }
  LinearForm linear(const Node& from, const Node& to, const LinearForm& x) const {
    return (noise_ ? to.alpha / from.alpha : to.sigma / from.sigma) * x;
  }
  double exponential(const Node& from, const Node& to) const {
    const double h = log_snr_step(from, to);
    return noise_ ? -to.sigma * std::expm1(h) : -to.alpha * std::expm1(-h);
  }
  double second(const Node& from, const Node& to) const {
    const double h = log_snr_step(from, to);
    return noise_ ? -to.sigma * (std::expm1(h) / h - 1) : to.alpha * (std::expm1(-h) / h + 1);
  }

  const Schedule& schedule_;
  Trace& trace_;
  bool noise_;
};

// The first-order step plus what the slopes of the prediction in lambda add. With z = h for the
// noise and -h for the data form the two have the same coefficients.
LinearForm multistep_update(const PredictionHistory& history, int order, bool noise, const Node& to,
                            const LinearForm& x) {
  const size_t i = history.nodes.size() - 1;
  const Node& from = history.nodes[i];
  const double h = log_snr_step(from, to), z = noise ? h : -h;
  const double scale = noise ? to.sigma : to.alpha;
  const double phi1 = std::expm1(z);
  const LinearForm linear = (noise ? to.alpha / from.alpha : to.sigma / from.sigma) * x;
  const auto& p = history.predictions;
  const double r0 = log_snr_step(history.nodes[i - 1], from) / h;
  const LinearForm slope0 = (1 / r0) * (p[i] - p[i - 1]);
  if (order == 2) return linear - scale * phi1 * (p[i] + 0.5 * slope0);

  const double phi2 = phi1 / z - 1, phi3 = phi2 / z - 0.5;
  const double r1 = log_snr_step(history.nodes[i - 2], history.nodes[i - 1]) / h;
  const LinearForm slope1 = (1 / r1) * (p[i - 1] - p[i - 2]);
  const LinearForm first = slope0 + r0 / (r0 + r1) * (slope0 - slope1);
  const LinearForm second = 1 / (r0 + r1) * (slope0 - slope1);
  return linear - scale * (phi1 * p[i] + phi2 * first + phi3 * second);
}

}  // namespace

NsSolver dpm_singlestep(const Schedule& schedule, const std::vector<double>& grid, Prediction form,
                        const std::vector<int>& orders) {
  Trace trace(&schedule);
  Singlestep method(schedule, trace, form);
  LinearForm x = trace.start();
  for (size_t i = 0; i + 1 < grid.size(); ++i) {
    x = method.step(orders[i], {schedule, grid[i]}, {schedule, grid[i + 1]}, x);
  }
  return trace.finish(grid.back(), x);
}

std::vector<int> dpm_singlestep_orders(int order, int nfe) {
  std::vector<int> orders(static_cast<size_t>(nfe / order), order);
  if (order == 2 && nfe % 2 == 1) orders.push_back(1);
  if (order == 3 && nfe % 3 == 0) {
    orders.back() = 2;
    orders.push_back(1);
  }
  if (order == 3 && nfe % 3 != 0) orders.push_back(nfe % 3);
  return orders;
}

NsSolver dpm_multistep(const Schedule& schedule, const std::vector<double>& grid, Prediction form,
                       const MultistepOptions& options) {
  const size_t steps = grid.size() - 1;
  const bool noise = form == Prediction::noise;
  Trace trace(&schedule);
  PredictionHistory history;
  LinearForm x = trace.start();
  for (size_t i = 0; i < steps; ++i) {
    const Evaluation evaluation = trace.evaluate(grid[i], x);
    history.nodes.emplace_back(schedule, grid[i]);
    history.predictions.push_back(noise ? evaluation.noise : evaluation.data);
    const Node to(schedule, grid[i + 1]);
    const auto lambda = [&](size_t k) { return history.nodes[k].lambda; };
    const size_t order = std::isfinite(to.lambda) ? usable_order(options, i, steps, lambda) : 1;
    x = order == 1 ? first_order_step(history.nodes[i], to, x, evaluation.data)
                   : multistep_update(history, static_cast<int>(order), noise, to, x);
  }
  return trace.finish(grid.back(), x);
}

}  // namespace bespoke
