#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/trace.h"
#include "exponential.h"

namespace bespoke {

// A grid point with what exponential methods need of the schedule there.
struct Node {
  double t, alpha, sigma, lambda;

  Node(const Schedule& schedule, double time)
      : t(time),
        alpha(schedule.alpha(time)),
        sigma(schedule.sigma(time)),
        lambda(schedule.lambda(time)) {}

  double rho() const { return sigma / alpha; }
  double snr() const { return alpha / sigma; }
};

// The data or noise predictions a multistep method has made so far, and where.
struct PredictionHistory {
  std::vector<Node> nodes;
  std::vector<LinearForm> predictions;
};

// lambda' - lambda; infinite where either end is.
inline double log_snr_step(const Node& from, const Node& to) { return to.lambda - from.lambda; }

// The order a multistep method can use on step i of `steps`: what it was asked for, what its
// history allows, and, where order is to fall towards the end, what is left. History points at
// which value(k) is infinite are of no use.
template <class Value>
size_t usable_order(const MultistepOptions& options, size_t i, size_t steps, Value value) {
  size_t order = std::min<size_t>(static_cast<size_t>(options.order), i + 1);
  if (options.lower_order_final) order = std::min(order, steps - i);
  while (order > 1 && !std::isfinite(value(i + 1 - order))) --order;
  return order;
}

// One first-order step with the data prediction held fixed: (sigma'/sigma) x - alpha' expm1(-h) D.
// It is DDIM, in the form that stays finite at both ends.
inline LinearForm first_order_step(const Node& from, const Node& to, const LinearForm& x,
                                   const LinearForm& data) {
  return (to.sigma / from.sigma) * x - to.alpha * std::expm1(-log_snr_step(from, to)) * data;
}

// `count` DDIM substeps of equal length in t: how a step of several evaluations is taken where its
// higher-order form is infinite. Spends the same evaluations and stays off the end itself.
inline LinearForm first_order_substeps(const Schedule& schedule, Trace& trace, int count,
                                       const Node& from, const Node& to, LinearForm x) {
  Node node = from;
  for (int j = 1; j <= count; ++j) {
    const Node next = j == count ? to : Node(schedule, from.t + (to.t - from.t) * j / count);
    x = first_order_step(node, next, x, trace.evaluate(node.t, x).data);
    node = next;
  }
  return x;
}

}  // namespace bespoke
