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

// In plain text.
std::string rival_sentence(const Report& report, const Finding& best) {
  const BaselineNeed* rival = best.rival();
  if (rival == nullptr) return "";
  const std::string& name = rival->solver;
  const double cost = rival->needed.cost;
  switch (rival->needed.kind) {
    case CostNeeded::Kind::interpolated:
      return fmt::format("{} needs {:.0f} for the same.", name, std::ceil(cost));
    case CostNeeded::Kind::at_most:
      return fmt::format("{} needs at most {:g} for the same.", name, cost);
    case CostNeeded::Kind::more_than:
    case CostNeeded::Kind::never:
      break;
  }
  // Each baseline has a bound of its own; the sentence must hold for all of them.
  return fmt::format("No other solver measured reaches that, with up to {:g} {}s.", cost,
                     report.unit);
}

std::string tile(const std::string& figure, const std::string& what) {
  return fmt::format("<li><b>{}</b>{}</li>", figure, what);
}

std::string saving_tile(const Report& report, const Finding& best) {
  const BaselineNeed* rival = best.rival();
  if (rival == nullptr) return "";
  const auto kind = rival->needed.kind;
  const bool beyond = kind == CostNeeded::Kind::more_than;
  const char* bound = beyond ? "&gt; " : kind == CostNeeded::Kind::at_most ? "≤ " : "";
  const std::string whom = beyond ? "every other solver measured" : escape_html(rival->solver);
  return tile(fmt::format("{}{:.1f}×", bound, best.saving()),
              fmt::format("speed-up in {}s over {}", report.unit, whom));
}

}  // namespace

std::string headline_html(const Report& report, const Finding* best) {
  if (best != nullptr) {
    return fmt::format("<strong>{}</strong> reach{} {:.1f} dB. <span>{}</span>",
                       counted(best->row.cost, report), best->row.cost == 1 ? "es" : "",
                       best->row.psnr, escape_html(rival_sentence(report, *best)));
  }
  const ReportRow* row = nearest_row(report);
  if (row == nullptr) return "No solver came to an end.";
  return fmt::format("{} comes nearest: <strong>{:.1f} dB</strong> with {}.",
                     escape_html(row->solver), row->psnr, counted(row->cost, report));
}

std::string headline(const Report& report) {
  const auto all = findings(report);
  const Finding* best = featured(all, report);
  if (best == nullptr) return "";
  std::string text = fmt::format("{} of {} reach{} {:.1f} dB", counted(best->row.cost, report),
                                 best->row.solver, best->row.cost == 1 ? "es" : "", best->row.psnr);
  if (report.reference_cost > 0) {
    text += fmt::format(" of what the reference draws with {:.0f}, {:.1f} times as many",
                        report.reference_cost, report.reference_cost / best->row.cost);
  }
  const std::string rival = rival_sentence(report, *best);
  return text + (rival.empty() ? "." : ". " + rival);
}

std::string tiles_html(const Report& report, const Finding* best) {
  if (best == nullptr) return "";
  std::string tiles = tile(fmt::format("{}", best->row.cost), report.unit + "s a sample") +
                      tile(fmt::format("{:.1f} dB", best->row.psnr), "PSNR, mean over samples") +
                      saving_tile(report, *best);
  if (report.reference_cost > 0) {
    tiles += tile(fmt::format("{:.0f}", report.reference_cost),
                  report.unit + "s of the reference it reproduces");
  }
  return "<ul class=\"tiles\">" + tiles + "</ul>";
}

}  // namespace bespoke
