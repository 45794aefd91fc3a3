#include "trials.h"

#include "damped_step.h"

namespace bespoke::detail {

Trial best_trial(const Attempt& attempt, double damping, int attempts) {
  constexpr double kFactor = 10;
  if (attempts < 2) return attempt({damping}).front();
  const std::vector<Trial> first = attempt({damping, damping * kFactor});
  Trial best = first[0], next = first[1];
  double factor = kFactor;
  int tried = 2;
  if (!(next.loss < best.loss) && tried < attempts) {
    factor = 1 / kFactor;
    next = attempt({damping * factor}).front();
    ++tried;
  }
  while (next.loss < best.loss) {
    best = next;
    if (tried++ >= attempts) break;
    next = attempt({best.damping * factor}).front();
  }
  return best;
}

namespace {

// A step whose times the family rounds: they lie elsewhere then, and the others follow.
std::vector<double> with_rounded_times(const Family& family, const Matrix& hessian, double damping,
                                       const std::vector<double>& gradient,
                                       const std::vector<double>& theta,
                                       const std::vector<double>& trial) {
  const std::vector<double> rounded = family.parameters(family.solver(trial));
  std::vector<double> move(theta.size(), 0), held(theta.size(), 0);
  for (const size_t i : family.rounded_parameters()) {
    move[i] = rounded[i] - theta[i];
    held[i] = 1;
  }
  std::vector<double> right = gradient;
  for (size_t i = 0; i < right.size(); ++i) {
    for (size_t j = 0; j < move.size(); ++j) right[i] += hessian(i, j) * move[j];
  }
  Matrix free = hessian;
  for (size_t i = 0; i < free.rows; ++i) {
    for (size_t j = 0; j < free.columns; ++j) {
      if (held[i] + held[j] > 0) free(i, j) = i == j ? 1 : 0;
    }
    if (held[i] > 0) right[i] = 0;
  }
  const std::vector<double> step = damped_step(free, damping, family, right);
  if (step.empty()) return {};
  std::vector<double> result = theta;
  for (size_t i = 0; i < result.size(); ++i) result[i] += move[i] - step[i];
  return result;
}

}  // namespace

std::vector<double> moved(const Family& family, const Matrix& hessian, double damping,
                          const std::vector<double>& gradient, const std::vector<double>& theta) {
  const std::vector<double> step = damped_step(hessian, damping, family, gradient);
  if (step.empty()) return {};
  std::vector<double> trial = theta;
  for (size_t i = 0; i < step.size(); ++i) trial[i] -= step[i];
  if (family.rounded_parameters().empty()) return trial;
  return with_rounded_times(family, hessian, damping, gradient, theta, trial);
}

}  // namespace bespoke::detail
