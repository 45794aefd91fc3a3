#include "bespoke/distill/direct.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "gauss_newton_step.h"

namespace bespoke {

using namespace detail;

namespace {

// Where the columns of a linearisation lie among the coefficients: those of the changes, then those
// of the last step.
std::vector<size_t> column_indices(const std::vector<Change>& changes, int nfe) {
  const auto n = static_cast<size_t>(nfe);
  const auto row = [n](size_t i) { return 2 * n + 1 + i * (i + 1) / 2; };
  std::vector<size_t> indices;
  for (const Change& change : changes) {
    const auto step = static_cast<size_t>(change.step);
    switch (change.what) {
      case Change::What::start_scale:
        indices.push_back(row(n));
        break;
      case Change::What::time:
        indices.push_back(step);
        break;
      default:
        indices.push_back(change.column == 0 ? n + 1 + step : row(step) + change.column - 1);
    }
  }
  indices.push_back(2 * n);
  for (size_t j = 0; j < n; ++j) indices.push_back(row(n - 1) + j);
  return indices;
}

// The slope in all coefficients, zero in those that were not changed; columns of one number are
// averaged.
LinearModelSlope in_coefficients(const LinearModelSlope& slope, const std::vector<size_t>& indices,
                                 int nfe) {
  const size_t count = coefficient_count(nfe);
  LinearModelSlope whole{std::vector<double>(count, 0), Matrix(count, count)};
  std::vector<double> shares(count, 0);
  for (const size_t index : indices) shares[index] += 1;
  for (size_t i = 0; i < indices.size(); ++i) {
    const double share = 1 / shares[indices[i]];
    whole.gradient[indices[i]] += share * slope.gradient[i];
    for (size_t j = 0; j < indices.size(); ++j) {
      whole.curvature(indices[i], indices[j]) += share / shares[indices[j]] * slope.curvature(i, j);
    }
  }
  return whole;
}

// The loss of a solver on some samples, with the last step put where it is best where it is free.
class Refitted {
 public:
  Refitted(const Objective& objective, const Family& family, const std::vector<int64_t>& batch,
           Counts* counts)
      : objective_(objective),
        family_(family),
        batch_(batch),
        counts_(counts),
        refits_(objective.is_linear() && !family.last_step().empty()) {}

  // The plain loss at theta as it is; sets the floor from it where there is none yet.
  double begin(std::vector<double>& theta, double smoothing) {
    smoothing_ = smoothing;
    return measure(theta, nullptr);
  }

  // The smoothed loss, infinite where the solver diverges; theta gets the refitted last step.
  double smoothed(std::vector<double>& theta) {
    try {
      double loss = 0;
      measure(theta, &loss);
      return loss;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      return std::numeric_limits<double>::infinity();
    }
  }

  double floor() const { return floor_; }

 private:
  double measure(std::vector<double>& theta, double* smoothed) {
    const NsSolver solver = family_.solver(theta);
    if (!refits_) {
      auto errors = objective_.log_errors(solver, batch_, counts_);
      const double plain = mean(errors), size = objective_.sample_size();
      if (floor_ < 0) floor_ = smoothing_ * std::exp(plain) * size;
      for (double& e : errors) e = std::log(std::exp(e) + floor_ / size);
      if (smoothed != nullptr) *smoothed = mean(errors);
      return plain;
    }
    LinearModel last = objective_.last_step(solver, batch_, counts_);
    const double plain = last.loss(std::vector<double>(last.columns(), 0));
    if (floor_ < 0) floor_ = smoothing_ * last.typical_square();
    last.floor = floor_;
    const std::vector<double> change = best_change(last);
    const std::vector<size_t> indices = family_.last_step();
    for (size_t i = 0; i < change.size(); ++i) theta[indices[i]] += change[i];
    if (smoothed != nullptr) *smoothed = last.loss(change);
    return plain;
  }

  const Objective& objective_;
  const Family& family_;
  const std::vector<int64_t>& batch_;
  Counts* counts_;
  bool refits_;
  double smoothing_ = 0, floor_ = -1;
};

}  // namespace

std::vector<Change> jacobian_changes(const NsSolver& solver, const DirectOptions& options) {
  const int n = solver.nfe();
  std::vector<Change> changes;
  for (int i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const double ahead = solver.times[k + 1] - solver.times[k];
    const double behind = i == 0 ? solver.times[0] : solver.times[k] - solver.times[k - 1];
    const double size = options.time_difference * (behind > 0 ? std::min(ahead, behind) : ahead);
    if (size > 0) changes.push_back({Change::What::time, i, 0, size});
    if (size > 0 && behind > 0) changes.push_back({Change::What::time, i, 0, -size});
  }
  for (int i = 0; i + 1 < n; ++i) {
    changes.push_back({Change::What::coefficient, i, 0, options.difference});
  }
  for (int i = 0; i + 1 < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      changes.push_back({Change::What::coefficient, i, j + 1, options.difference});
    }
  }
  changes.push_back({Change::What::start_scale, 0, 0, options.difference});
  return changes;
}

int64_t evaluations_of(const std::vector<Change>& changes, int nfe) {
  int64_t evaluations = nfe;
  for (const Change& change : changes) evaluations += nfe - change.first_evaluation();
  return evaluations;
}

double direct_iteration(const Objective& objective, const Family& family,
                        const DirectOptions& options, const std::vector<int64_t>& batch,
                        GaussNewtonState& state, std::vector<double>& theta, Counts* counts) {
  if (state.damping == 0) state.damping = options.damping;
  Refitted refitted(objective, family, batch, counts);
  const double before = refitted.begin(theta, options.smoothing);
  const NsSolver solver = family.solver(theta);
  const auto changes = jacobian_changes(solver, options);
  LinearModel linear = objective.linearise(solver, batch, changes, counts);
  linear.floor = refitted.floor();
  const double loss = linear.loss(std::vector<double>(linear.columns(), 0));
  const LinearModelSlope slope =
      in_coefficients(slope_of(linear), column_indices(changes, solver.nfe()), solver.nfe());
  const Matrix jacobian = family.jacobian(theta);
  const std::vector<double> gradient = transposed_product(jacobian, slope.gradient);
  const Matrix hessian =
      congruence(averaged_curvature(slope.curvature, loss, options.averaging, state), jacobian);
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    const std::vector<double> step = damped_step(hessian, state.damping, family, gradient);
    std::vector<double> trial = theta;
    for (size_t i = 0; i < step.size(); ++i) trial[i] -= step[i];
    if (!step.empty() && refitted.smoothed(trial) < loss) {
      state.damping = std::max(state.damping / options.shrink, kLeastDamping);
      theta = trial;
      break;
    }
    state.damping *= options.grow;
  }
  return before;
}

}  // namespace bespoke
