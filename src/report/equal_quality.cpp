#include "bespoke/report/equal_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bespoke {

CostNeeded cost_needed(std::vector<std::pair<int, double>> points, double psnr) {
  using Kind = CostNeeded::Kind;
  points.erase(std::remove_if(points.begin(), points.end(),
                              [](const auto& point) { return std::isnan(point.second); }),
               points.end());
  std::sort(points.begin(), points.end());
  if (points.empty()) return {Kind::never, 0};
  if (points.front().second >= psnr) return {Kind::at_most, double(points.front().first)};
  for (size_t i = 1; i < points.size(); ++i) {
    const auto& [before, low] = points[i - 1];
    const auto& [after, high] = points[i];
    if (high < psnr) continue;
    // An exact result is infinitely good; nothing can be said about the way there.
    const double fraction = std::isinf(high) ? 1 : (psnr - low) / (high - low);
    return {Kind::interpolated, before + fraction * (after - before)};
  }
  return {Kind::more_than, double(points.back().first)};
}

std::string to_string(const CostNeeded& needed) {
  switch (needed.kind) {
    case CostNeeded::Kind::interpolated:
      return fmt::format("{:.1f}", needed.cost);
    case CostNeeded::Kind::at_most:
      return fmt::format("≤ {:g}", needed.cost);
    case CostNeeded::Kind::more_than:
      return fmt::format("> {:g}", needed.cost);
    case CostNeeded::Kind::never:
      break;
  }
  return "diverged";
}

}  // namespace bespoke
