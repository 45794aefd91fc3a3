#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/run/solver_run.h"

namespace bespoke {

// One number of a solver changed a little, to see how x_n changes.
struct Change {
  enum class What { start_scale, time, coefficient };
  What what;
  int step;    // of the time or coefficient
  int column;  // of a coefficient: 0 is a_i, 1 + j is b_ij, behind them are those of c
  // How much a time changes. For a coefficient: how far it moves the state after the step, in parts
  // of that state's root mean square; for the start scale, in parts of x_0's.
  double size;

  // The first evaluation that the change is seen by.
  int first_evaluation() const { return what == What::coefficient ? step + 1 : step; }
};

// How x_n of a run changes for a unit of each number changed, and for one of each coefficient of
// the last step: columns side by side, as Arrays::grams takes them. Each change costs the
// evaluations from its first one on. The field gets them in few, even batches of at most so many
// rows, or of all samples for one change. An Error (diverged) where a changed run is not finite.
Array columns_of_end(const ArrayField& field, const SolverRun& run,
                     const std::vector<Change>& changes, int64_t most_rows, Counts* counts);

}  // namespace bespoke
