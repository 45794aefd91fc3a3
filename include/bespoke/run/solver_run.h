#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bespoke/run/array_field.h"
#include "bespoke/run/arrays.h"
#include "bespoke/run/counts.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A run of a solver on some samples: its states x_0 ... x_n, its velocities and, of a solver with
// built-in guidance, the differences of its guided steps. A run that kept its end alone has x_n.
struct SolverRun {
  NsSolver solver;
  std::vector<int64_t> samples;  // their numbers in the field
  std::vector<Array> x, u, d;

  const Array& end() const { return x.back(); }
  // What the last step combined.
  std::vector<Array> columns() const { return columns_of(x.front(), u, d); }
};

enum class Keep { everything, end };

// After a step: x_{step+1}, and what was evaluated for it.
struct SolverStep {
  size_t step;
  const Array& x;
  const Velocities& velocities;
};
using SolverStepCallback = std::function<void(const SolverStep&)>;

// The steps of a run alone, from x_0: evaluates the field and adds to the states, until they say
// that one is not finite. Returns the steps that went well, and what was evaluated last.
struct StepsTaken {
  size_t count;
  Velocities last;
};
StepsTaken run_steps(const ArrayField& field, const NsSolver& solver, const Array& start,
                     const std::vector<int64_t>& samples, GrowingStates& states, Counts* counts,
                     const SolverStepCallback& on_step = nullptr);

// Algorithm 1 of the paper, for any solver, field and arrays: x_{i+1} = a_i x_0 + sum_j b_ij u_j
// (+ sum_j c_ij d_j) from the noise, which is scaled as the solver says. Nothing is read back from
// a device before the last step. An Error (diverged) that names the step, the time and the sample
// where a state is not finite; `first_sample` is what it calls the first row.
SolverRun run_solver(const ArrayField& field, const NsSolver& solver, const Array& noise,
                     std::vector<int64_t> samples, Keep keep, int64_t first_sample, Counts* counts,
                     const SolverStepCallback& on_step = nullptr);

// Runs of several solvers of one shape on the same samples, in one batch. They may stop being
// finite: is_finite tells.
std::vector<SolverRun> run_side_by_side(const ArrayField& field,
                                        const std::vector<NsSolver>& solvers, const Array& noise,
                                        const std::vector<int64_t>& samples, Counts* counts);
bool is_finite(const Arrays& arrays, const SolverRun& run);

// The run on some of its rows; and with the last step of another solver, without an evaluation.
SolverRun rows_of_run(const Arrays& arrays, const SolverRun& run, const std::vector<int64_t>& rows);
SolverRun with_last_step(const Arrays& arrays, SolverRun run, const NsSolver& solver);

// Throws (diverged): says where the state of a run stopped being finite, and what may help.
[[noreturn]] void report_not_finite(const Arrays& arrays, const NsSolver& solver, size_t step,
                                    const Array& velocity, const Array& x, int64_t first_sample);

}  // namespace bespoke
