#include "bespoke/distill/starts.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

bool can_spend(const std::string& method, int nfe) { return find_solver(method).steps(nfe) > 0; }

}  // namespace

std::string to_string(const LogSnrRange& range) {
  const std::string text = fmt::format("lambda-range:from={:.2f},to={:.2f}", range.from, range.to);
  return range.bend == 0 ? text : text + fmt::format(",bend={:.3f}", range.bend);
}

std::vector<LogSnrRange> automatic_ranges(int nfe, const Schedule& schedule,
                                          double data_deviation) {
  // Where the path ends before the data, samples have the size it has there.
  const double size = schedule.alpha(1) + schedule.sigma(1);
  const double shift = -std::log(data_deviation / size / 0.5);
  const double centre = -1.25 - 0.75 * std::log2(nfe) + shift;
  const double to = 4.5 + shift;
  std::vector<LogSnrRange> ranges;
  for (const double offset : {-0.8, -0.4, 0.0, 0.4}) {
    const double from = std::max(centre + offset, schedule.lambda(0));
    const bool another = ranges.empty() || from > ranges.back().from + 0.01;
    if (from < to - 1 && another) ranges.push_back({from, to, 0});
  }
  return ranges;
}

std::vector<LogSnrRange> likely_ranges(int nfe, const Schedule& schedule, double data_deviation) {
  // Found on samples of deviations from 0.5 to 1, which gained nothing by a shift between them.
  constexpr double kAlike = 0.7, kLarge = 0.7;
  const double fewer = std::log2(8.0 / nfe), whole = -std::log(data_deviation / 0.5);
  const double shift = std::copysign(std::max(0.0, std::abs(whole) - kAlike), whole);
  std::vector<LogSnrRange> likely = {{-3.8, 4.0, 0}, {-3.4, 3.4, 0}, {-3.0, 2.8, -0.2}};
  // The last one mostly does best for samples as large as latents are.
  if (data_deviation > kLarge) std::reverse(likely.begin(), likely.end());
  std::vector<LogSnrRange> ranges;
  for (const LogSnrRange& range : likely) {
    const double from = std::max(range.from + 0.75 * fewer + shift, schedule.lambda(0));
    ranges.push_back({from, std::max(range.to - 0.6 * fewer + shift, from + 1), range.bend});
  }
  return ranges;
}

std::vector<std::string> automatic_grids(int nfe, const Schedule& schedule, double data_deviation) {
  std::vector<std::string> grids = {"uniform-t"};
  for (const LogSnrRange& range : automatic_ranges(nfe, schedule, data_deviation)) {
    grids.push_back(to_string(range));
  }
  return grids;
}

std::vector<std::string> start_candidates(const std::string& grid, int nfe) {
  std::vector<std::string> names;
  for (const std::string name :
       {"midpoint", "ab2", "dpm++2m", "unipc3-bh2", "deis-t-ab3", "ipndm"}) {
    if (can_spend(name, nfe)) names.push_back(name + "/" + grid);
  }
  return names;
}

std::vector<std::string> plain_starts(const Family& family, const Schedule& schedule) {
  std::vector<std::string> names;
  const bool any = family.is_bns();
  if ((any || family.name() == "bst-rk2") && can_spend("midpoint", family.nfe())) {
    names.push_back("midpoint");
  }
  if (any || family.name() == "bst-rk1") names.push_back("euler");
  if (schedule.name() == kStraightest) return names;
  for (auto& name : names) name += std::string("@") + kStraightest;
  return names;
}

}  // namespace bespoke
