#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/distill/fit.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// Where to look for the times of a fit: a fit of given times costs n forwards a sample and nothing
// else, so that many can be tried. First uniform t and some ranges of log-SNR; then the best one's
// numbers are moved in turn, by less where that gains nothing: a range's ends and bend, or towards
// which end times even in t are drawn and where they start.
struct FitSearchOptions {
  FitOptions fit;
  int64_t samples = 16;  // the first ones, as far as their trajectories are known
  int rounds = 2;        // of moving each number up or down
};

// The best fits on any times tried, so many at most, the best first; times on which a solver
// diverges are passed over. The family says which times there are. An Error (diverged) where no fit
// is finite.
std::vector<NamedSolver> search_fits(const Samples& samples, const Family& family,
                                     const Schedule& schedule, const FitSearchOptions& options,
                                     size_t most, Counts* counts,
                                     const std::function<void(double)>& on_progress = nullptr);

// The best of them.
NamedSolver search_fit(const Samples& samples, const Family& family, const Schedule& schedule,
                       const FitSearchOptions& options, Counts* counts,
                       const std::function<void(double)>& on_progress = nullptr);

}  // namespace bespoke
