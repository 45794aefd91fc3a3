#include "bespoke/distill/last_step.h"

#include <algorithm>
#include <cmath>

namespace bespoke {

namespace {

double squared_error(const LastStep& last, const LastStep::Sample& sample,
                     const std::vector<double>& change) {
  double linear = 0;
  for (size_t i = 0; i < change.size(); ++i) linear += sample.products[i] * change[i];
  return std::max(sample.squared_error + 2 * linear + quadratic_form(sample.gram, change),
                  kLeastError * last.size) +
         last.floor;
}

// The gradient of the mean log error and its Gauss-Newton matrix after a change.
struct Local {
  std::vector<double> gradient;
  Matrix hessian;
};

Local local_at(const LastStep& last, const std::vector<double>& change) {
  const size_t n = change.size();
  Local local{std::vector<double>(n, 0), Matrix(n, n)};
  for (const auto& sample : last.samples) {
    const double weight =
        2 / (squared_error(last, sample, change) * static_cast<double>(last.samples.size()));
    for (size_t i = 0; i < n; ++i) {
      double product = sample.products[i];
      for (size_t j = 0; j < n; ++j) {
        product += sample.gram(i, j) * change[j];
        local.hessian(i, j) += weight * sample.gram(i, j);
      }
      local.gradient[i] += weight * product;
    }
  }
  return local;
}

}  // namespace

double LastStep::loss(const std::vector<double>& change) const {
  double sum = 0;
  for (const auto& sample : samples) sum += std::log(squared_error(*this, sample, change) / size);
  return sum / static_cast<double>(samples.size());
}

std::vector<double> best_last_step(const LastStep& last) {
  constexpr int kIterations = 50;
  constexpr double kEnough = 1e-6;  // gain of loss
  constexpr double kGrow = 100;     // of the damping
  std::vector<double> change(last.samples.front().products.size(), 0);
  double loss = last.loss(change), damping = 1e-9;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    Local local = local_at(last, change);
    for (size_t i = 0; i < change.size(); ++i) local.hessian(i, i) *= 1 + damping;
    const std::vector<double> step = solve_positive(local.hessian, local.gradient);
    std::vector<double> trial = change;
    for (size_t i = 0; i < step.size(); ++i) trial[i] -= step[i];
    const double gain = loss - last.loss(trial);
    if (!(gain > 0)) {
      damping *= kGrow;
      continue;
    }
    change = trial;
    loss -= gain;
    if (gain < kEnough) break;
  }
  return change;
}

}  // namespace bespoke
