#pragma once

#include <vector>

#include "bespoke/distill/distill.h"

namespace bespoke::detail {

// The fit alone is to take seconds.
FitSearchOptions fit_search_options(const DistillOptions& options);

// The solvers that a distillation begins from: those given; the best fit where trajectories are
// known; otherwise the nearest of the catalogue; for Adam and scale-time families the plain ones.
std::vector<NamedSolver> chosen_starts(const Samples& training, const Family& family,
                                       const DistillOptions& options, Counts* counts);

}  // namespace bespoke::detail
