#include "bespoke/run/solver_run.h"

#include <fmt/format.h>

#include <utility>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

// A number of each solver, for all of its samples.
std::vector<double> for_all_samples(const std::vector<double>& of_solvers, size_t samples) {
  std::vector<double> rows;
  for (const double value : of_solvers) rows.insert(rows.end(), samples, value);
  return rows;
}

// The coefficients of a step by column, then by row.
std::vector<std::vector<double>> coefficients_by_column(const std::vector<NsSolver>& solvers,
                                                        size_t step, size_t samples) {
  std::vector<std::vector<double>> by_solver;
  for (const NsSolver& solver : solvers) by_solver.push_back(step_coefficients(solver, step));
  std::vector<std::vector<double>> by_column;
  for (size_t column = 0; column < by_solver.front().size(); ++column) {
    std::vector<double> values;
    for (const auto& coefficients : by_solver) values.push_back(coefficients[column]);
    by_column.push_back(for_all_samples(values, samples));
  }
  return by_column;
}

template <class Take>
std::vector<Array> from_each(const std::vector<Array>& arrays, const Take& take) {
  std::vector<Array> parts;
  for (const Array& array : arrays) parts.push_back(take(array));
  return parts;
}

}  // namespace

StepsTaken run_steps(const ArrayField& field, const NsSolver& solver, const Array& start,
                     const std::vector<int64_t>& samples, GrowingStates& states, Counts* counts,
                     const SolverStepCallback& on_step) {
  const SolverShape shape = solver.shape();
  StepsTaken taken{0, {}};
  for (size_t i = 0; i < solver.a.size(); ++i, ++taken.count) {
    const Question question = question_at(shape, i);
    counts->forwards += static_cast<int64_t>(samples.size()) * calls_of(question);
    taken.last =
        field.evaluate(i == 0 ? start : states.state(i - 1), {solver.times[i]}, samples, question);
    if (!states.add(i, taken.last.velocity, taken.last.difference)) break;
    if (on_step) on_step({i, states.state(i), taken.last});
  }
  return taken;
}

SolverRun run_solver(const ArrayField& field, const NsSolver& solver, const Array& noise,
                     std::vector<int64_t> samples, Keep keep, int64_t first_sample, Counts* counts,
                     const SolverStepCallback& on_step) {
  const Arrays& arrays = field.arrays();
  const Array start =
      solver.start_scale == 1 ? noise : arrays.combine({solver.start_scale}, {noise}, noise);
  SolverRun run{solver, std::move(samples), {start}, {}, {}};
  const auto states = arrays.grow(solver, start);
  const size_t n = solver.a.size();
  const auto take = [&](const SolverStep& step) {
    if (on_step) on_step(step);
    if (keep == Keep::end) return;
    run.x.push_back(step.x);
    run.u.push_back(step.velocities.velocity);
    if (step.velocities.difference) run.d.push_back(step.velocities.difference);
  };
  const StepsTaken taken = run_steps(field, solver, start, run.samples, *states, counts, take);
  if (taken.count < n) {
    report_not_finite(arrays, solver, taken.count, taken.last.velocity, states->state(taken.count),
                      first_sample);
  }
  const size_t bad = states->first_not_finite();
  if (bad < n) {
    // Its velocity is gone; what the model answers there once more says whose fault it is.
    const Array last_state = bad == 0 ? start : states->state(bad - 1);
    const Velocities again = field.evaluate(last_state, {solver.times[bad]}, run.samples,
                                            question_at(solver.shape(), bad));
    report_not_finite(arrays, solver, bad, again.velocity, states->state(bad), first_sample);
  }
  if (keep == Keep::end && n > 0) run.x = {states->state(n - 1)};
  return run;
}

std::vector<SolverRun> run_side_by_side(const ArrayField& field,
                                        const std::vector<NsSolver>& solvers, const Array& noise,
                                        const std::vector<int64_t>& samples, Counts* counts) {
  const Arrays& arrays = field.arrays();
  const SolverShape shape = solvers.front().shape();
  const auto copies = static_cast<int64_t>(solvers.size());
  std::vector<int64_t> all;
  std::vector<double> scales;
  for (const NsSolver& solver : solvers) {
    all.insert(all.end(), samples.begin(), samples.end());
    scales.push_back(solver.start_scale);
  }
  std::vector<Array> x = {arrays.combine_per_sample({for_all_samples(scales, samples.size())},
                                                    {arrays.repeat(noise, copies)})};
  std::vector<Array> u, d;
  for (size_t step = 0; step < solvers.front().a.size(); ++step) {
    std::vector<double> times;
    for (const NsSolver& solver : solvers) times.push_back(solver.times[step]);
    const Question question = question_at(shape, step);
    counts->forwards += static_cast<int64_t>(all.size()) * calls_of(question);
    const Velocities velocities =
        field.evaluate(x.back(), for_all_samples(times, samples.size()), all, question);
    u.push_back(velocities.velocity);
    if (velocities.difference) d.push_back(velocities.difference);
    x.push_back(arrays.combine_per_sample(coefficients_by_column(solvers, step, samples.size()),
                                          columns_of(x.front(), u, d)));
  }
  std::vector<SolverRun> runs;
  const auto rows = static_cast<int64_t>(samples.size());
  for (int64_t k = 0; k < copies; ++k) {
    const auto rows_of_solver = [&](const Array& array) {
      return arrays.rows(array, k * rows, (k + 1) * rows);
    };
    runs.push_back({solvers[static_cast<size_t>(k)], samples, from_each(x, rows_of_solver),
                    from_each(u, rows_of_solver), from_each(d, rows_of_solver)});
  }
  return runs;
}

bool is_finite(const Arrays& arrays, const SolverRun& run) {
  return arrays.is_finite(arrays.concatenate(run.x));
}

SolverRun rows_of_run(const Arrays& arrays, const SolverRun& run,
                      const std::vector<int64_t>& rows) {
  const auto chosen = [&](const Array& array) { return arrays.take(array, rows); };
  SolverRun part{
      run.solver, {}, from_each(run.x, chosen), from_each(run.u, chosen), from_each(run.d, chosen)};
  for (const int64_t row : rows) part.samples.push_back(run.samples[static_cast<size_t>(row)]);
  return part;
}

SolverRun with_last_step(const Arrays& arrays, SolverRun run, const NsSolver& solver) {
  run.x.back() =
      arrays.combine(step_coefficients(solver, solver.a.size() - 1), run.columns(), run.x.front());
  run.solver = solver;
  return run;
}

void report_not_finite(const Arrays& arrays, const NsSolver& solver, size_t step,
                       const Array& velocity, const Array& x, int64_t first_sample) {
  constexpr double kNarrow = 1e-4;
  const bool model = !arrays.is_finite(velocity);
  const bool narrow = arrays.epsilon(velocity) > kNarrow;
  const char* advice = !model   ? "check that the solver was made for this model"
                       : narrow ? "run the model in a wider precision"
                                : "check the model at this time";
  const int64_t row = arrays.first_not_finite(model ? velocity : x);
  throw Error(ErrorKind::diverged,
              fmt::format("{} at step {} of {} (t = {}, sample {}); {}",
                          model ? "the model returned NaN or infinity" : "the state overflowed",
                          step + 1, solver.nfe(), solver.times[step], first_sample + row, advice));
}

}  // namespace bespoke
