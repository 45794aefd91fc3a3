#include <fmt/format.h>

#include <cmath>

#include "sections.h"
#include "template.h"

namespace bespoke {

namespace {

std::string counted_evaluations(int count) {
  return fmt::format("{} evaluation{}", count, count == 1 ? "" : "s");
}

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
std::string rival_sentence(const Finding& best) {
  const BaselineNeed* rival = best.rival();
  if (rival == nullptr) return "";
  const std::string& name = rival->solver;
  const double nfe = rival->needed.nfe;
  switch (rival->needed.kind) {
    case EvaluationsNeeded::Kind::interpolated:
      return fmt::format("{} needs {:.0f} for the same.", name, std::ceil(nfe));
    case EvaluationsNeeded::Kind::at_most:
      return fmt::format("{} needs at most {:g} for the same.", name, nfe);
    case EvaluationsNeeded::Kind::more_than:
    case EvaluationsNeeded::Kind::never:
      break;
  }
  // Each baseline has a bound of its own; the sentence must hold for all of them.
  return fmt::format("No other solver measured reaches that, with up to {:g} evaluations.", nfe);
}

std::string tile(const std::string& figure, const std::string& what) {
  return fmt::format("<li><b>{}</b>{}</li>", figure, what);
}

std::string saving_tile(const Finding& best) {
  const BaselineNeed* rival = best.rival();
  if (rival == nullptr) return "";
  const auto kind = rival->needed.kind;
  const bool beyond = kind == EvaluationsNeeded::Kind::more_than;
  const char* bound = beyond ? "&gt; " : kind == EvaluationsNeeded::Kind::at_most ? "≤ " : "";
  const std::string whom = beyond ? "every other solver measured" : escape_html(rival->solver);
  return tile(fmt::format("{}{:.1f}×", bound, best.saving()),
              "speed-up in evaluations over " + whom);
}

}  // namespace

std::string headline_html(const Report& report, const Finding* best) {
  if (best != nullptr) {
    return fmt::format("<strong>{}</strong> reach{} {:.1f} dB. <span>{}</span>",
                       counted_evaluations(best->row.nfe), best->row.nfe == 1 ? "es" : "",
                       best->row.psnr, escape_html(rival_sentence(*best)));
  }
  const ReportRow* row = nearest_row(report);
  if (row == nullptr) return "No solver came to an end.";
  return fmt::format("{} comes nearest: <strong>{:.1f} dB</strong> with {}.",
                     escape_html(row->solver), row->psnr, counted_evaluations(row->nfe));
}

std::string headline(const Report& report) {
  const auto all = findings(report);
  const Finding* best = featured(all, report);
  if (best == nullptr) return "";
  std::string text = fmt::format("{} of {} reach{} {:.1f} dB", counted_evaluations(best->row.nfe),
                                 best->row.solver, best->row.nfe == 1 ? "es" : "", best->row.psnr);
  if (report.reference_evaluations > 0) {
    text += fmt::format(" of what the reference draws with {:.0f}, {:.1f} times as many",
                        report.reference_evaluations, report.reference_evaluations / best->row.nfe);
  }
  const std::string rival = rival_sentence(*best);
  return text + (rival.empty() ? "." : ". " + rival);
}

std::string tiles_html(const Report& report, const Finding* best) {
  if (best == nullptr) return "";
  std::string tiles = tile(fmt::format("{}", best->row.nfe), "evaluations a sample") +
                      tile(fmt::format("{:.1f} dB", best->row.psnr), "PSNR, mean over samples") +
                      saving_tile(*best);
  if (report.reference_evaluations > 0) {
    tiles += tile(fmt::format("{:.0f}", report.reference_evaluations),
                  "evaluations of the reference it reproduces");
  }
  return "<ul class=\"tiles\">" + tiles + "</ul>";
}

}  // namespace bespoke
