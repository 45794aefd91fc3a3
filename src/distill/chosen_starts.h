#pragma once

#include <vector>

#include "bespoke/distill/distill.h"

namespace bespoke::detail {

// The fit alone is to take seconds.
FitSearchOptions fit_search_options(const DistillOptions& options);

struct ChosenStart : NamedSolver {
  std::vector<double> log_errors = {};  // of the samples it was fitted to, if it was
};

// The solvers that a distillation begins from: those given; where trajectories are known so many
// fits, those that are best on their own samples; otherwise the nearest of the catalogue; for Adam
// and scale-time families the plain ones.
std::vector<ChosenStart> chosen_starts(const Samples& training, const Family& family,
                                       const DistillOptions& options, size_t finalists,
                                       Counts* counts);

}  // namespace bespoke::detail
