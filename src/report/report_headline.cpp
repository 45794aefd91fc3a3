#include <fmt/format.h>

#include <cmath>

#include "sections.h"
#include "template.h"

namespace bespoke {

namespace {

// The best row, of those that did not diverge.
const ReportRow* nearest_row(const Report& report) {
  const ReportRow* best = nullptr;
  for (const auto& row : report.rows) {
    if (std::isnan(row.psnr)) continue;
    if (best == nullptr || row.psnr > best->psnr) best = &row;
  }
  return best;
}

// Plain text, to begin a sentence with.
std::string subject(const BaselineNeed& need) {
  std::string text = need.solver;
  if (text.rfind("the ", 0) == 0) text[0] = 'T';
  return text;
}

// In plain text.
std::string rival_sentence(const Report& report, const Finding& best) {
  const BaselineNeed* rival = best.rival();
  if (rival == nullptr) return "";
  const double cost = rival->needed.cost, times = cost / best.row.cost;
  const bool of_catalogue = best.catalogue && rival == &*best.catalogue;
  switch (rival->needed.kind) {
    case CostNeeded::Kind::interpolated:
      return fmt::format("{} needs {}{:.0f} for the same, {:.1f} times as many.", subject(*rival),
                         of_catalogue ? "about " : "", std::ceil(cost), times);
    case CostNeeded::Kind::at_most:
      return fmt::format("{} needs at most {:g} for the same.", subject(*rival), cost);
    case CostNeeded::Kind::more_than:
    case CostNeeded::Kind::never:
      break;
  }
  if (of_catalogue) {
    return fmt::format(
        "Nothing in the catalogue gets there with {:g}, which is {:.1f} times as many; {} comes "
        "nearest.",
        cost, times, report.catalogue->solver);
  }
  // Each baseline has a bound of its own; the sentence must hold for all of them.
  return fmt::format("No other solver measured reaches that, with up to {}.",
                     counted(static_cast<int>(cost), report));
}

std::string tile(const std::string& figure, const std::string& what) {
  return fmt::format("<li><b>{}</b>{}</li>", figure, what);
}

// Nothing where all that is known is that as few do not suffice.
std::string saving_tile(const Report& report, const Finding& best) {
  const BaselineNeed* rival = best.rival();
  if (rival == nullptr) return "";
  const auto kind = rival->needed.kind;
  const bool beyond = kind == CostNeeded::Kind::more_than;
  if (beyond && best.saving() <= 1) return "";
  const char* bound = beyond ? "&gt; " : kind == CostNeeded::Kind::at_most ? "≤ " : "";
  const bool of_catalogue = best.catalogue && rival == &*best.catalogue;
  const std::string whom = beyond && !of_catalogue ? "every other solver measured" : rival->solver;
  return tile(fmt::format("{}{:.1f}×", bound, best.saving()),
              fmt::format("speed-up in {}s over {}", report.unit, escape_html(whom)));
}

}  // namespace

std::string headline_html(const Report& report, const Finding* best) {
  if (best != nullptr) {
    return fmt::format("<strong>{}</strong> reach{} {}. <span>{}</span>",
                       counted(best->row.cost, report), best->row.cost == 1 ? "es" : "",
                       decibels(best->row), escape_html(rival_sentence(report, *best)));
  }
  const ReportRow* row = nearest_row(report);
  if (row == nullptr) return "No solver came to an end.";
  return fmt::format("{} comes nearest: <strong>{}</strong> with {}.", escape_html(row->solver),
                     decibels(*row), counted(row->cost, report));
}

std::string headline(const Report& report) {
  const auto all = findings(report);
  const Finding* best = featured(all, report);
  if (best == nullptr) return "";
  const std::string text =
      fmt::format("{} of {} reach{} {}", counted(best->row.cost, report), best->row.solver,
                  best->row.cost == 1 ? "es" : "", decibels(best->row));
  const std::string rival = rival_sentence(report, *best);
  return text + (rival.empty() ? "." : ". " + rival);
}

std::string tiles_html(const Report& report, const Finding* best) {
  if (best == nullptr) return "";
  std::string tiles = tile(fmt::format("{}", best->row.cost), report.unit + "s per sample") +
                      tile(decibels(best->row), best->row.psnr_error > 0
                                                    ? "PSNR, mean over samples ± standard error"
                                                    : "PSNR, mean over samples") +
                      saving_tile(report, *best);
  if (report.reference_cost > 0) {
    tiles += tile(fmt::format("{:.0f}", report.reference_cost),
                  report.unit + "s of the adaptive reference it reproduces");
  }
  return "<ul class=\"tiles\">" + tiles + "</ul>";
}

}  // namespace bespoke
