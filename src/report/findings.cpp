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
    if (row.solver == solver) points.emplace_back(row.cost, row.psnr);
  }
  return points;
}

// The names of rows that are distilled, or of those that are not, each once.
std::vector<std::string> names_of(const Report& report, bool distilled) {
  std::vector<std::string> names;
  for (const auto& row : report.rows) {
    const bool known = std::find(names.begin(), names.end(), row.solver) != names.end();
    if (row.distilled == distilled && !known) names.push_back(row.solver);
  }
  return names;
}

bool is_featured(const ReportRow& row, const Report& report) {
  return row.solver == report.featured_solver && row.cost == report.featured_cost;
}

}  // namespace

bool needs_less(const BaselineNeed& left, const BaselineNeed& right) {
  const auto key = [](const BaselineNeed& need) {
    return std::make_tuple(need.needed.kind == CostNeeded::Kind::more_than, need.needed.cost);
  };
  return key(left) < key(right);
}

const BaselineNeed* Finding::rival() const {
  const BaselineNeed* least = catalogue ? &*catalogue : nullptr;
  for (const auto* some : {&needs, &needs_of_distilled}) {
    for (const auto& need : *some) {
      if (need.needed.kind == CostNeeded::Kind::never) continue;
      if (catalogue && need.needed.kind == CostNeeded::Kind::more_than) continue;
      if (least == nullptr || needs_less(need, *least)) least = &need;
    }
  }
  return least;
}

double Finding::saving() const {
  const BaselineNeed* other = rival();
  return other == nullptr ? 0 : other->needed.cost / row.cost;
}

bool is_of(const Finding* finding, const std::string& solver, int cost) {
  return finding != nullptr && finding->row.solver == solver && finding->row.cost == cost;
}

std::string counted(int cost, const Report& report) {
  return fmt::format("{} {}{}", cost, report.unit, cost == 1 ? "" : "s");
}

std::string decibels(const ReportRow& row) {
  if (!(row.psnr_error > 0)) return fmt::format("{:.1f} dB", row.psnr);
  return fmt::format("{:.1f} ± {:.1f} dB", row.psnr, row.psnr_error);
}

std::optional<double> measured_psnr(const Report& report, const ReportSamples& samples) {
  for (const auto& row : report.rows) {
    const bool same = row.solver == samples.solver && row.cost == samples.cost;
    if (same && std::isfinite(row.psnr)) return row.psnr;
  }
  return {};
}

std::vector<std::string> baseline_names(const Report& report) { return names_of(report, false); }

std::vector<Finding> findings(const Report& report) {
  std::vector<Finding> list;
  for (const auto& row : report.rows) {
    if (!row.distilled || !std::isfinite(row.psnr)) continue;
    Finding finding{row, {}, {}, {}};
    if (report.catalogue && is_featured(row, report)) {
      finding.catalogue = {"the best of the catalogue (" + report.catalogue->solver + ")",
                           report.catalogue->needed};
    }
    const auto need_of = [&](const std::string& name) {
      return BaselineNeed{name, cost_needed(quality_points(report, name), row.psnr)};
    };
    for (const auto& name : baseline_names(report)) finding.needs.push_back(need_of(name));
    for (const auto& name : names_of(report, true)) {
      if (name != row.solver) finding.needs_of_distilled.push_back(need_of(name));
    }
    list.push_back(std::move(finding));
  }
  return list;
}

const Finding* featured(const std::vector<Finding>& findings, const Report& report) {
  const Finding* best = nullptr;
  for (const auto& finding : findings) {
    if (is_featured(finding.row, report)) return &finding;
    if (best == nullptr || finding.saving() > best->saving()) best = &finding;
  }
  return best;
}

}  // namespace bespoke
