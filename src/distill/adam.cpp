#include "bespoke/distill/adam.h"

#include <cmath>

namespace bespoke {

double learning_rate(const AdamOptions& options, int64_t k, int64_t iterations) {
  const auto done = static_cast<double>(k), all = static_cast<double>(iterations);
  if (options.decay == RateDecay::polynomial) return options.rate * (all - done) / all;
  return options.rate * (1 + std::cos(std::acos(-1.0) * done / all)) / 2;
}

void adam_update(const AdamOptions& options, int64_t k, int64_t iterations,
                 const std::vector<double>& gradient, AdamState& state,
                 std::vector<double>& theta) {
  state.first.resize(theta.size(), 0);
  state.second.resize(theta.size(), 0);
  const double rate = learning_rate(options, k, iterations);
  const double unbias_1 = 1 - std::pow(options.beta_1, static_cast<double>(k + 1));
  const double unbias_2 = 1 - std::pow(options.beta_2, static_cast<double>(k + 1));
  for (size_t i = 0; i < theta.size(); ++i) {
    const double g = gradient[i];
    state.first[i] = options.beta_1 * state.first[i] + (1 - options.beta_1) * g;
    state.second[i] = options.beta_2 * state.second[i] + (1 - options.beta_2) * g * g;
    theta[i] -= rate * (state.first[i] / unbias_1) /
                (std::sqrt(state.second[i] / unbias_2) + options.epsilon);
  }
}

}  // namespace bespoke
