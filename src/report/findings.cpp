#include "findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace bespoke {

namespace {

std::vector<std::pair<int, double>> quality_points(const Report& report,
                                                   const std::string& solver) {
  std::vector<std::pair<int, double>> points;
  for (const auto& row : report.rows) {
    if (!row.distilled && row.solver == solver) points.emplace_back(row.cost, row.psnr);
  }
  return points;
}

// A solver known to get there comes before one of which only a bound is known.
bool needs_less(const BaselineNeed& left, const BaselineNeed& right) {
  const auto key = [](const BaselineNeed& need) {
    return std::make_tuple(need.needed.kind == CostNeeded::Kind::more_than, need.needed.cost);
  };
  return key(left) < key(right);
}

}  // namespace

const BaselineNeed* Finding::rival() const {
  const BaselineNeed* least = nullptr;
  for (const auto& need : needs) {
    if (need.needed.kind == CostNeeded::Kind::never) continue;
    if (least == nullptr || needs_less(need, *least)) least = &need;
  }
  return least;
}

double Finding::saving() const {
  const BaselineNeed* other = rival();
  return other == nullptr ? 0 : other->needed.cost / row.cost;
}

std::string counted(int cost, const Report& report) {
  return fmt::format("{} {}{}", cost, report.unit, cost == 1 ? "" : "s");
}

std::optional<double> measured_psnr(const Report& report, const ReportSamples& samples) {
  for (const auto& row : report.rows) {
    const bool same = row.solver == samples.solver && row.cost == samples.cost;
    if (same && std::isfinite(row.psnr)) return row.psnr;
  }
  return {};
}

std::vector<std::string> baseline_names(const Report& report) {
  std::vector<std::string> names;
  for (const auto& row : report.rows) {
    const bool known = std::find(names.begin(), names.end(), row.solver) != names.end();
    if (!row.distilled && !known) names.push_back(row.solver);
  }
  return names;
}

std::vector<Finding> findings(const Report& report) {
  std::vector<Finding> list;
  for (const auto& row : report.rows) {
    if (!row.distilled || !std::isfinite(row.psnr)) continue;
    Finding finding{row, {}};
    for (const auto& name : baseline_names(report)) {
      finding.needs.push_back({name, cost_needed(quality_points(report, name), row.psnr)});
    }
    list.push_back(std::move(finding));
  }
  return list;
}

const Finding* featured(const std::vector<Finding>& findings, const Report& report) {
  const Finding* best = nullptr;
  for (const auto& finding : findings) {
    const ReportRow& row = finding.row;
    if (row.solver == report.featured_solver && row.cost == report.featured_cost) return &finding;
    if (best == nullptr || finding.saving() > best->saving()) best = &finding;
  }
  return best;
}

}  // namespace bespoke
