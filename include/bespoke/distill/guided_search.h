#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/distill/fit_search.h"
#include "bespoke/path/schedule.h"
#include "bespoke/run/samples.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The shapes of solvers with built-in guidance that make exactly so many network calls per sample,
// by rising number of steps, of which the first ones are guided: the late steps are those that can
// do without (research/experiments.md). Those of `nfe` steps alone where it is not 0. No such shape
// is a usage error.
std::vector<SolverShape> guided_shapes(int calls, int nfe = 0);

// The shape found, and the fit of it to start from.
struct GuidedFit {
  FamilyPtr family;
  NamedSolver start;
};

struct GuidedSearchOptions {
  FitSearchOptions fit;
  BnsConstraints constraints;
  // The most calls, 0 for no limit: the search leaves out what would spend more, but for its first
  // fit.
  int64_t most_calls = 0;
};

// Finds the shape that does best by fits: each is fitted to the true trajectories of training
// samples on a few times, and judged on validation samples. More steps gain up to some number and
// lose beyond it, so the search ends two shapes after the best; its best few are then fitted with
// the whole search for times. An Error (diverged) where no fit is finite.
GuidedFit search_guided_fit(const Samples& training, const Samples& validation,
                            const Schedule& schedule, const std::vector<SolverShape>& shapes,
                            const GuidedSearchOptions& options, Counts* counts,
                            const std::function<void(double)>& on_progress = nullptr);

}  // namespace bespoke
