#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// How many evaluations, or network calls, a solver needs for a quality, read off the figures
// measured of it.
struct CostNeeded {
  // Whether the quality is reached between measured points, already at the first of them, not even
  // at the last, or nothing can be said because the solver diverged at all of them.
  enum class Kind { interpolated, at_most, more_than, never };

  Kind kind = Kind::more_than;
  double cost = 0;
};

// Where the line through the points (cost, PSNR), in any order, first reaches `psnr`. Points that
// are not numbers are passed over: there the solver diverged.
CostNeeded cost_needed(std::vector<std::pair<int, double>> points, double psnr);

// The same where points are not there yet: `psnr_at(cost)` measures one. Asks at `first`, doubles
// the cost until `psnr` is reached or `most` is, and then halves the gap until it is a quarter of
// the cost or one.
CostNeeded search_cost(int first, int most, double psnr, const std::function<double(int)>& psnr_at);

// "21.6", "≤ 4", "> 20", "diverged".
std::string to_string(const CostNeeded& needed);

}  // namespace bespoke
