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

CostNeeded search_cost(int first, int most, double psnr,
                       const std::function<double(int)>& psnr_at) {
  std::vector<std::pair<int, double>> points;
  const auto reached_at = [&](int cost) {
    points.emplace_back(cost, psnr_at(cost));
    return points.back().second >= psnr;
  };
  int low = first, high = first;
  bool reached = reached_at(first);
  while (!reached && high < most) {
    low = high;
    high = std::min(2 * high, most);
    reached = reached_at(high);
  }
  while (reached && high - low > std::max(1, high / 4)) {
    const int middle = (low + high) / 2;
    (reached_at(middle) ? high : low) = middle;
  }
  // Above the least cost that reached it nothing needs to be known, and might mislead.
  points.erase(std::remove_if(points.begin(), points.end(),
                              [&](const auto& point) { return point.first > high; }),
               points.end());
  return cost_needed(points, psnr);
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
