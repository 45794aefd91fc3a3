#include "bespoke/distill/fit.h"

#include <memory>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

void check_unknowns(const Objective& objective, const std::vector<int64_t>& subset, int nfe) {
  const double numbers = objective.sample_size() * static_cast<double>(subset.size());
  const double unknowns = nfe + 1;
  if (numbers >= unknowns) return;
  throw bad_input(
      "the last step has {} unknowns and the {} samples {} numbers; at least {} samples are needed",
      unknowns, subset.size(), numbers,
      static_cast<int64_t>(unknowns / objective.sample_size()) + 1);
}

std::vector<double> solved(const std::vector<double>& change, size_t step) {
  if (!change.empty()) return change;
  throw Error(
      ErrorKind::diverged,
      fmt::format("the samples do not determine step {}: its matrix is singular", step + 1));
}

}  // namespace

FittedSolver fit_solver(const Objective& objective, const std::vector<int64_t>& subset,
                        const std::vector<double>& times, const FitOptions& options,
                        Counts* counts) {
  const size_t n = times.size() - 1;
  check_unknowns(objective, subset, static_cast<int>(n));
  const std::unique_ptr<StepwiseRun> run = objective.begin_run(subset, counts);
  FittedSolver fitted;
  NsSolver& solver = fitted.solver;
  solver.times = times;
  if (options.free_start_scale) {
    solver.start_scale = solved(least_squares_change(run->noise_against(times[0])), 0)[0];
  }
  run->start(solver.start_scale);
  for (size_t i = 0; i < n; ++i) {
    LinearModel step = run->evaluate(times[i], times[i + 1]);
    std::vector<double> change = solved(least_squares_change(step), i);
    if (i + 1 == n) {
      // From least squares on, since far from it the log error has other minima.
      step = moved(step, change);
      step.floor = options.smoothing * step.typical_square();
      const std::vector<double> more = best_change(step);
      for (size_t j = 0; j < change.size(); ++j) change[j] += more[j];
      step.floor = 0;
      fitted.loss = step.loss(more);
    }
    solver.a.push_back(change[0]);
    solver.b.emplace_back(change.begin() + 1, change.end());
    run->advance(change);
  }
  return fitted;
}

}  // namespace bespoke
