#include "bespoke/distill/levenberg_marquardt.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "gauss_newton_step.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr double kGrow = 4;         // of the damping
constexpr double kGoodRatio = 0.5;  // of actual to predicted fall

void move_last_step(const Family& family, const std::vector<double>& change,
                    std::vector<double>& theta) {
  const std::vector<size_t> indices = family.last_step();
  for (size_t i = 0; i < change.size(); ++i) theta[indices[i]] += change[i];
}

// The smoothed loss at theta on the batch, infinite where the solver diverges; where the last step
// is free it is put where it is best first, in theta too.
double trial_loss(const Objective& objective, const Family& family, bool refit, double floor,
                  const std::vector<int64_t>& batch, std::vector<double>& theta, Counts* counts) {
  try {
    if (!refit) {
      auto errors = objective.log_errors(family.solver(theta), batch, counts);
      for (double& e : errors) e = std::log(std::exp(e) + floor / objective.sample_size());
      return mean(errors);
    }
    LinearModel last = objective.last_step(family.solver(theta), batch, counts);
    last.floor = floor;
    const std::vector<double> change = best_change(last);
    move_last_step(family, change, theta);
    return last.loss(change);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return std::numeric_limits<double>::infinity();
  }
}

double dot(const std::vector<double>& left, const std::vector<double>& right) {
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) sum += left[i] * right[i];
  return sum;
}

}  // namespace

double lm_iteration(const Objective& objective, const Family& family, const LmOptions& options,
                    uint64_t seed, int64_t iteration, GaussNewtonState& state,
                    std::vector<double>& theta, Counts* counts) {
  if (state.damping == 0) state.damping = options.damping;
  const auto batch = draw_batch(seed, iteration, objective.count(), options.batch);
  const bool refit = objective.is_linear() && !family.last_step().empty();
  const LocalModel model = objective.local_model(
      family.solver(theta), batch,
      {options.probes, refit, options.smoothing, seed, probe_stream(iteration)}, counts);
  move_last_step(family, model.last_step, theta);
  const Matrix jacobian = family.jacobian(theta);
  const std::vector<double> gradient = transposed_product(jacobian, model.gradient);
  const Matrix hessian = congruence(
      averaged_curvature(model.curvature, model.loss, options.averaging, state), jacobian);
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    const std::vector<double> step = damped_step(hessian, state.damping, family, gradient);
    std::vector<double> trial = theta;
    for (size_t i = 0; i < step.size(); ++i) trial[i] -= step[i];
    const double fall = step.empty() ? 0
                                     : model.loss - trial_loss(objective, family, refit,
                                                               model.floor, batch, trial, counts);
    if (!(fall > 0)) {
      state.damping *= kGrow;
      continue;
    }
    const double predicted = dot(gradient, step) - quadratic_form(hessian, step) / 2;
    if (fall > kGoodRatio * predicted) {
      state.damping = std::max(state.damping / options.shrink, kLeastDamping);
    }
    theta = trial;
    break;
  }
  return model.loss;
}

}  // namespace bespoke
