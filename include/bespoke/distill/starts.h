#pragma once

#include <string>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// Times evenly spaced in log-SNR, but for a bend: the grid lambda-range.
struct LogSnrRange {
  double from, to, bend;
};
std::string to_string(const LogSnrRange& range);

// The schedule in whose coordinates every model's field is bounded and nearly straight, so that
// methods start best.
constexpr char kStraightest[] = "fm-ot";

// The ranges automatic starts lie on. Results depend mostly on where a start places its times: the
// optimiser soon finds the coefficients but, since networks ripple in t, hardly moves a time over a
// ripple. Times do best evenly spaced in log-SNR from where samples begin to show, which with more
// evaluations is worth knowing ever earlier, and is measured against how far the samples deviate
// from 0 (research/experiments.md).
std::vector<LogSnrRange> automatic_ranges(int nfe, const Schedule& schedule, double data_deviation);

// The ranges on which fits to a few samples mostly do best, the likeliest first.
std::vector<LogSnrRange> likely_ranges(int nfe, const Schedule& schedule, double data_deviation);

// The grids of these ranges, and uniform t for models that are unlike all that was tried.
std::vector<std::string> automatic_grids(int nfe, const Schedule& schedule, double data_deviation);

// The methods that come nearest to some model with few evaluations, on one grid: of these, those
// that can spend `nfe`.
std::vector<std::string> start_candidates(const std::string& grid, int nfe);

// The solvers that any optimiser of any family can start from: midpoint and Euler where they are in
// the family, in the coordinates in which fields are nearly straight.
std::vector<std::string> plain_starts(const Family& family, const Schedule& schedule);

}  // namespace bespoke
