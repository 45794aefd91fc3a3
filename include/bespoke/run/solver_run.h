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
  NsSolver solver;               // that was run
  std::vector<int64_t> samples;  // their numbers in the field
  std::vector<Array> x;          // x_0 ... x_n
  std::vector<Array> u;          // u_0 ... u_{n-1}
  std::vector<Array> d;          // d_j of the guided steps, in order

  // The samples, x_n.
  const Array& end() const { return x.back(); }
  // What the last step combined.
  std::vector<Array> columns() const { return columns_of(x.front(), u, d); }
};

// What a run keeps: all states and velocities, or x_n alone.
enum class Keep { everything, end };

// What a step of a run did.
struct SolverStep {
  size_t step;                   // its number, from 0
  const Array& x;                // x_{step+1}
  const Velocities& velocities;  // what was evaluated for it
};
// Called after each step.
using SolverStepCallback = std::function<void(const SolverStep&)>;

// What run_steps did.
struct StepsTaken {
  size_t count;     // the steps that went well
  Velocities last;  // what was evaluated last
};
// Takes the steps of a run from x_0: evaluates the field and adds to the states, until they say
// that one is not finite.
StepsTaken run_steps(const ArrayField& field, const NsSolver& solver, const Array& start,
                     const std::vector<int64_t>& samples, GrowingStates& states, Counts* counts,
                     const SolverStepCallback& on_step = nullptr);

// Runs Algorithm 1 of the paper, for any solver, field and arrays: x_{i+1} = a_i x_0 + sum_j b_ij
// u_j
// (+ sum_j c_ij d_j) from the noise, which is scaled as the solver says. Nothing is read back from
// a device before the last step. Where a state is not finite it throws (diverged) with the step,
// the time and the sample; `first_sample` is the number of the first row in that message.
SolverRun run_solver(const ArrayField& field, const NsSolver& solver, const Array& noise,
                     std::vector<int64_t> samples, Keep keep, int64_t first_sample, Counts* counts,
                     const SolverStepCallback& on_step = nullptr);

// Runs several solvers of one shape on the same samples, in one batch. They may stop being finite:
// is_finite tells.
std::vector<SolverRun> run_side_by_side(const ArrayField& field,
                                        const std::vector<NsSolver>& solvers, const Array& noise,
                                        const std::vector<int64_t>& samples, Counts* counts);
// Whether all states of a run are finite.
bool is_finite(const Arrays& arrays, const SolverRun& run);

// The run on some of its rows.
SolverRun rows_of_run(const Arrays& arrays, const SolverRun& run, const std::vector<int64_t>& rows);
// The run with the last step of another solver, which takes no evaluation.
SolverRun with_last_step(const Arrays& arrays, SolverRun run, const NsSolver& solver);

// Throws (diverged): says where the state of a run stopped being finite, and what may help.
[[noreturn]] void report_not_finite(const Arrays& arrays, const NsSolver& solver, size_t step,
                                    const Array& velocity, const Array& x, int64_t first_sample);

}  // namespace bespoke
