#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/run/counts.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// The loss and its gradient in the solver's coefficients, in the order of coefficients_of.
struct LossGradient {
  double loss = 0;
  std::vector<double> gradient;
};

// What has gradients of the model: the mean log error of a solver on some training samples, and its
// exact gradient.
class LossGradients {
 public:
  virtual ~LossGradients() = default;
  virtual LossGradient at(const NsSolver& solver, const std::vector<int64_t>& samples,
                          Counts* counts) const = 0;
};

// How the learning rate falls over the run, from its initial value to zero:
//   polynomial  rate (1 - k / K)        cosine  rate (1 + cos(pi k / K)) / 2.
enum class RateDecay { polynomial, cosine };

// Adam in the way Bespoke Non-Stationary solvers were first trained: a rate of 5e-4 with polynomial
// decay, or of 1e-4 with cosine annealing, in batches of 40 for 15,000 iterations.
struct AdamOptions {
  double rate = 5e-4;
  RateDecay decay = RateDecay::polynomial;
  int64_t batch = 40;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-8;
};

struct AdamState {
  std::vector<double> first, second;  // moving averages of the gradient and of its square
};

// The rate of iteration k = 0 ... iterations - 1.
double learning_rate(const AdamOptions& options, int64_t k, int64_t iterations);

// One update of theta along the gradient of iteration k.
void adam_update(const AdamOptions& options, int64_t k, int64_t iterations,
                 const std::vector<double>& gradient, AdamState& state, std::vector<double>& theta);

}  // namespace bespoke
