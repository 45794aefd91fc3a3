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

// Where to look for the times of a fit: a fit of given times costs n evaluations per sample and
// nothing else, so that many can be tried. First some ranges of log-SNR and uniform t; then the
// best one's numbers are moved in turn, by less where that gains nothing: a range's ends and bend,
// or towards which end times even in t are drawn and where they start.
//
// Where there are calls for a few times alone, those that mostly do best come before all others,
// and are moved before the others are tried.
struct FitSearchOptions {
  FitOptions fit;
  int64_t samples = 16;  // the first ones, as far as their trajectories are known
  int rounds = 2;        // of moving each number up or down, where there are four samples
  // Whether the ranges that mostly do best come first.
  bool begins_with_likely_ranges = false;
  // The most evaluations, with those counted before; 0: no limit. Times beyond it are not tried.
  int64_t most_calls = 0;
};

// A fit and its errors: the mean log error on the samples it was fitted to, that of each, and
// the mean as left_out_loss estimates it on others, where there are two samples.
struct FoundFit : NamedSolver {
  double loss = 0;
  std::vector<double> log_errors;
  double left_out_loss = 0;
};

// The best fits on any times tried, so many at most, the best first; times on which a solver
// diverges are passed over. The family says which times there are. Throws (diverged) where no fit
// is finite, and (usage) where the limit does not pay for one fit.
std::vector<FoundFit> search_fits(const Samples& samples, const Family& family,
                                  const Schedule& schedule, const FitSearchOptions& options,
                                  size_t most, Counts* counts,
                                  const std::function<void(double)>& on_progress = nullptr);

// The best of these fits.
FoundFit search_fit(const Samples& samples, const Family& family, const Schedule& schedule,
                    const FitSearchOptions& options, Counts* counts,
                    const std::function<void(double)>& on_progress = nullptr);

}  // namespace bespoke
