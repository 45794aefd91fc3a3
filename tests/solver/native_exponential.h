#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "native_generic.h"

// Exponential integrators in the form of their papers: exponential Adams-Bashforth and Runge-Kutta,
// DEIS, iPNDM and EDM's Heun.
namespace bespoke::native {

struct Node {
  double t, alpha, sigma, lambda;

  Node(const Schedule& schedule, double time)
      : t(time),
        alpha(schedule.alpha(time)),
        sigma(schedule.sigma(time)),
        lambda(std::log(alpha / sigma)) {}
};

// x' = alpha' D + sigma' E, finite at both ends.
inline Array ddim_step(const Node& to, const DataAndNoise& prediction) {
  return to.alpha * prediction.data + to.sigma * prediction.noise;
}

inline Array ddim_substeps(const Problem& problem, int count, double from, double to, Array x) {
  for (int j = 0; j < count; ++j) {
    const double t = from + (to - from) * j / count;
    const double next = j + 1 == count ? to : from + (to - from) * (j + 1) / count;
    x = ddim_step(Node(problem.schedule, next), problem.predict(t, x));
  }
  return x;
}

inline Array ddim(const Problem& problem, Array x) {
  for (size_t i = 0; i < problem.steps(); ++i) {
    x = ddim_substeps(problem, 1, problem.grid[i], problem.grid[i + 1], x);
  }
  return x;
}

// phi_k(z) = sum_m z^m / (m + k)!; the recurrence loses digits where z is small.
inline double phi(int k, double z) {
  if (std::abs(z) > 1) return k == 0 ? std::exp(z) : (phi(k - 1, z) - 1 / std::tgamma(k)) / z;
  double sum = 0, term = 1 / std::tgamma(k + 1);
  for (int m = 1; m < 30; ++m) {
    sum += term;
    term *= z / (m + k);
  }
  return sum;
}

enum class Form { noise, data };
enum class Variable { lambda, rho, t };

// int_0^h exp(z (1 - s/h)) l_j(s) ds for the nodes' Lagrange polynomials l_j in lambda, with z = h
// for the noise and -h for the data form, from int_0^1 exp(z (1 - s)) s^k ds = k! phi_{k+1}(z).
inline std::vector<double> lambda_weights(const std::vector<double>& lambdas, double from,
                                          double to, Form form) {
  const double h = to - from;
  const double z = form == Form::noise ? h : -h;
  const std::vector<double> units = in_units_of_step(lambdas, from, h);
  std::vector<double> weights;
  for (size_t j = 0; j < units.size(); ++j) {
    const std::vector<double> coefficients = lagrange_polynomial(units, j);
    double integral = 0;
    for (size_t k = 0; k < coefficients.size(); ++k) {
      integral += coefficients[k] * std::tgamma(k + 1) * phi(static_cast<int>(k) + 1, z);
    }
    weights.push_back(h * integral);
  }
  return weights;
}

// int rho d(l_j), over [from, to], with w = sqrt(1 - t) as the variable: VP's rho is smooth in it
// up to w = 0. Panels end where 1000 (1 - t) is whole, which is where a table of 1000 levels has
// kinks.
inline double integral_of_rho(const Schedule& schedule, const std::vector<double>& slope_in_t,
                              double from, double to) {
  static const std::array<double, 5> kNodes = {0.1488743389816312, 0.4333953941292472,
                                               0.6794095682990244, 0.8650633666889845,
                                               0.9739065285171717};
  static const std::array<double, 5> kWeights = {0.2955242247147529, 0.2692667193099963,
                                                 0.2190863625159820, 0.1494513491505806,
                                                 0.0666713443086881};
  const auto integrand = [&](double w) {
    const double t = 1 - w * w;
    double slope = 0, power = 1;
    for (const double c : slope_in_t) {
      slope += c * power;
      power *= t - from;
    }
    return slope * schedule.sigma(t) / schedule.alpha(t) * 2 * w;
  };
  double total = 0;
  for (double noise_time = 1 - from; noise_time > 1 - to;) {
    const double next = std::max(1 - to, (std::ceil(1000 * noise_time - 1e-9) - 1) / 1000);
    const double high = std::sqrt(noise_time), low = std::sqrt(next);
    const double middle = (high + low) / 2, half = (high - low) / 2;
    for (size_t k = 0; k < kNodes.size(); ++k) {
      const double offset = half * kNodes[k];
      total += half * kWeights[k] * (integrand(middle - offset) + integrand(middle + offset));
    }
    noise_time = next;
  }
  return total;
}

// int l_j(t) drho over the step, by parts: [l_j rho] - int l_j'(t) rho dt.
inline std::vector<double> time_weights(const Schedule& schedule, std::vector<double> times,
                                        double from, double to) {
  const Node start(schedule, from), end(schedule, to);
  for (double& t : times) t -= from;
  std::vector<double> weights;
  for (size_t j = 0; j < times.size(); ++j) {
    const std::vector<double> polynomial = lagrange_polynomial(times, j);
    std::vector<double> slope;
    double at_end = 0, power = 1;
    for (size_t k = 0; k < polynomial.size(); ++k) {
      if (k > 0) slope.push_back(static_cast<double>(k) * polynomial[k]);
      at_end += polynomial[k] * power;
      power *= to - from;
    }
    weights.push_back(at_end * end.sigma / end.alpha - polynomial[0] * start.sigma / start.alpha -
                      integral_of_rho(schedule, slope, from, to));
  }
  return weights;
}

// The order at step i when `history` values can be used.
inline size_t order_at(const Problem& problem, size_t i, size_t order, size_t history) {
  const size_t allowed = std::min(order, history);
  return problem.lower_order_final ? std::min(allowed, problem.steps() - i) : allowed;
}

inline double value_of(Variable variable, const Node& node) {
  if (variable == Variable::lambda) return node.lambda;
  return variable == Variable::rho ? node.sigma / node.alpha : node.t;
}

// alpha' int l_j drho or sigma' int l_j dsnr, for the polynomials l_j of the nodes.
inline std::vector<double> exponential_weights(const Problem& problem, Form form, Variable variable,
                                               const std::vector<double>& nodes, const Node& here,
                                               const Node& next) {
  std::vector<double> weights;
  double scale = next.alpha;
  if (variable == Variable::lambda) {
    weights = lambda_weights(nodes, here.lambda, next.lambda, form);
    // alpha' drho = -sigma' exp(h - s) ds and sigma' dsnr = alpha' exp(s - h) ds.
    scale = form == Form::noise ? -next.sigma : next.alpha;
  } else if (variable == Variable::rho) {
    weights = adams_weights(nodes, value_of(variable, here), value_of(variable, next));
  } else {
    weights = time_weights(problem.schedule, nodes, here.t, next.t);
  }
  for (double& weight : weights) weight *= scale;
  return weights;
}

// x'/alpha' = x/alpha + int E drho or x'/sigma' = x/sigma + int D dsnr, with E or D the polynomial
// in `variable` through its last values.
inline Array exponential_adams(const Problem& problem, size_t order, Form form, Variable variable,
                               Array x) {
  const auto value = [variable](const Node& node) { return value_of(variable, node); };
  std::vector<double> history;
  std::vector<Array> predictions;
  for (size_t i = 0; i < problem.steps(); ++i) {
    const Node here(problem.schedule, problem.grid[i]), next(problem.schedule, problem.grid[i + 1]);
    const DataAndNoise prediction = problem.predict(here.t, x);
    if (std::isfinite(value(here))) {
      history.push_back(value(here));
      predictions.push_back(form == Form::noise ? prediction.noise : prediction.data);
    }
    const bool rho_is_infinite = here.alpha == 0;
    if (rho_is_infinite || !std::isfinite(value(next))) {
      x = ddim_step(next, prediction);
      continue;
    }
    const size_t count = order_at(problem, i, order, history.size());
    const std::vector<double> nodes(history.end() - static_cast<std::ptrdiff_t>(count),
                                    history.end());
    const auto weights = exponential_weights(problem, form, variable, nodes, here, next);
    x = (form == Form::noise ? next.alpha / here.alpha : next.sigma / here.sigma) * x;
    for (size_t j = 0; j < count; ++j) {
      x = x + weights[j] * predictions[predictions.size() - count + j];
    }
  }
  return x;
}

// One step of a method on d(x/alpha)/drho = E or d(x/sigma)/dsnr = D.
inline Array exponential_runge_kutta_step(const Problem& problem, const OneStepMethod& method,
                                          Form form, double t, double next_time, const Array& x) {
  const Schedule& schedule = problem.schedule;
  const Node here(schedule, t), next(schedule, next_time);
  const bool slope_diverges = method.evaluates_at_end && problem.velocity_is_infinite(next_time);
  const bool infinite = form == Form::noise ? here.alpha == 0 : next.sigma == 0;
  if (infinite || slope_diverges) {
    return ddim_substeps(problem, method.stages, t, next_time, x);
  }
  if (form == Form::noise) {
    const Slope noise = [&](double rho, const Array& y) {
      const double time = schedule.time_at_snr(1 / rho);
      return problem.predict(time, schedule.alpha(time) * y).noise;
    };
    return next.alpha *
           method.step(noise, here.sigma / here.alpha, next.sigma / next.alpha, x / here.alpha);
  }
  const Slope data = [&](double snr, const Array& y) {
    const double time = schedule.time_at_snr(snr);
    return problem.predict(time, schedule.sigma(time) * y).data;
  };
  return next.sigma *
         method.step(data, here.alpha / here.sigma, next.alpha / next.sigma, x / here.sigma);
}

inline Array exponential_runge_kutta(const Problem& problem, const OneStepMethod& method, Form form,
                                     Array x) {
  for (size_t i = 0; i < problem.steps(); ++i) {
    x = exponential_runge_kutta_step(problem, method, form, problem.grid[i], problem.grid[i + 1],
                                     x);
  }
  return x;
}

inline Array edm_heun(const Problem& problem, Array x) {
  for (size_t i = 0; i < problem.steps(); ++i) {
    x = exponential_runge_kutta_step(problem, i + 1 < problem.steps() ? kHeun : kEuler, Form::noise,
                                     problem.grid[i], problem.grid[i + 1], x);
  }
  return x;
}

// DDIM on a noise extrapolated with the Adams-Bashforth weights of equal steps, newest first.
inline Array ipndm(const Problem& problem, Array x) {
  static const std::vector<std::vector<double>> kWeights = {
      {1},
      {3. / 2, -1. / 2},
      {23. / 12, -16. / 12, 5. / 12},
      {55. / 24, -59. / 24, 37. / 24, -9. / 24}};
  std::vector<Array> noises;
  for (size_t i = 0; i < problem.steps(); ++i) {
    const Node here(problem.schedule, problem.grid[i]), next(problem.schedule, problem.grid[i + 1]);
    const DataAndNoise prediction = problem.predict(here.t, x);
    noises.insert(noises.begin(), prediction.noise);
    if (here.alpha == 0) {
      x = ddim_step(next, prediction);
      continue;
    }
    const auto& weights = kWeights[std::min(noises.size(), kWeights.size()) - 1];
    Array noise = 0 * x;
    for (size_t j = 0; j < weights.size(); ++j) noise = noise + weights[j] * noises[j];
    const double ratio = next.alpha / here.alpha;
    x = ratio * x + (next.sigma - ratio * here.sigma) * noise;
  }
  return x;
}

}  // namespace bespoke::native
