#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bespoke/run/samples.h"

namespace bespoke {

// Which of the solvers has the least loss on the first samples, `most_samples` at most,
// with its last step put where it is best (as it is where a decoder makes that no linear problem):
// one that diverges is never chosen, unless all do. Costs n evaluations per sample and solver.
// `on_progress` is
// told the fraction done.
size_t nearest_solver(const Samples& samples, const std::vector<NsSolver>& solvers,
                      int64_t most_samples, Counts* counts,
                      const std::function<void(double)>& on_progress);

}  // namespace bespoke
