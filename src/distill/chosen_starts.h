#pragma once

#include <vector>

#include "bespoke/distill/distill.h"

namespace bespoke::detail {

// The fit alone is to take seconds.
FitSearchOptions fit_search_options(const DistillOptions& options);

struct ChosenStart : NamedSolver {
  std::vector<double> log_errors = {};  // of the samples it was fitted to, if it was
};

// The solvers that a distillation begins from: those given; where trajectories are known the best
// on the validation samples of so many fits that are best on their own; otherwise the nearest of
// the catalogue; for Adam and scale-time families the plain ones. What the last costs is counted as
// measured.
std::vector<ChosenStart> chosen_starts(const Samples& training, const Samples& validation,
                                       const Family& family, const DistillOptions& options,
                                       size_t finalists, Counts* counts, Counts* measured);

}  // namespace bespoke::detail
