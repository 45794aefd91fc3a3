#include "bespoke/distill/fit.h"

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"

namespace bespoke {

namespace {

void check_unknowns(const Samples& samples, const std::vector<int64_t>& subset,
                    const SolverShape& shape) {
  const double numbers = samples.sample_size() * static_cast<double>(subset.size());
  const auto unknowns = static_cast<double>(shape.columns(static_cast<size_t>(shape.nfe) - 1));
  if (numbers >= unknowns) return;
  throw bad_input(
      "the last step has {} unknowns and the {} samples {} numbers; at least {} samples are needed",
      unknowns, subset.size(), numbers, static_cast<int64_t>(unknowns / samples.sample_size()) + 1);
}

std::vector<double> solved(const std::vector<double>& change, size_t step) {
  if (!change.empty()) return change;
  throw Error(
      ErrorKind::diverged,
      fmt::format("the samples do not determine step {}: its matrix is singular", step + 1));
}

// The next step, of the coefficients of its columns.
void add_step(NsSolver& solver, const std::vector<double>& coefficients) {
  const auto velocities = coefficients.begin() + 1;
  const auto differences = velocities + static_cast<std::ptrdiff_t>(solver.a.size()) + 1;
  solver.a.push_back(coefficients.front());
  solver.b.emplace_back(velocities, differences);
  if (solver.guides_itself()) solver.c.emplace_back(differences, coefficients.end());
}

// The log error of each sample after a change.
std::vector<double> log_errors(const LinearModel& all, const std::vector<double>& change) {
  std::vector<double> errors;
  for (const auto& sample : all.samples) {
    LinearModel one = all;
    one.samples = {sample};
    errors.push_back(one.loss(change));
  }
  return errors;
}

}  // namespace

FittedSolver fit_solver(const Samples& samples, const std::vector<int64_t>& subset,
                        const std::vector<double>& times, const FitOptions& options,
                        Counts* counts) {
  const size_t n = times.size() - 1;
  const SolverShape shape = {static_cast<int>(n), options.guided};
  check_unknowns(samples, subset, shape);
  StepwiseFit run(samples, shape, subset, counts);
  FittedSolver fitted;
  NsSolver& solver = fitted.solver;
  solver.times = times;
  solver.guided = shape.guided;
  solver.start_scale = options.start_scale;
  if (options.free_start_scale) {
    solver.start_scale = solved(least_squares_change(run.noise_against(times[0])), 0)[0];
  }
  run.start(solver.start_scale);
  for (size_t i = 0; i < n; ++i) {
    LinearModel step = run.evaluate(times[i], times[i + 1]);
    std::vector<double> change;
    if (i + 1 < n) {
      change = solved(balanced_change(step, options.smoothing), i);
    } else {
      fitted.last_step = step;
      // From least squares on, since far from it the log error has other minima.
      change = solved(least_squares_change(step), i);
      step = moved(step, change);
      step.floor = options.smoothing * step.typical_square();
      const std::vector<double> more = best_change(step);
      for (size_t j = 0; j < change.size(); ++j) change[j] += more[j];
      step.floor = 0;
      fitted.log_errors = log_errors(step, more);
      fitted.loss = detail::mean(fitted.log_errors);
    }
    add_step(solver, change);
    run.advance(change);
  }
  return fitted;
}

double left_out_loss(const FittedSolver& fitted, double smoothing) {
  const LinearModel& all = fitted.last_step;
  double sum = 0;
  for (size_t k = 0; k < all.samples.size(); ++k) {
    LinearModel others = all, left_out = all;
    others.samples.erase(others.samples.begin() + static_cast<std::ptrdiff_t>(k));
    left_out.samples = {all.samples[k]};
    sum += left_out.loss(solved(balanced_change(others, smoothing), fitted.solver.a.size() - 1));
  }
  return sum / static_cast<double>(all.samples.size());
}

}  // namespace bespoke
