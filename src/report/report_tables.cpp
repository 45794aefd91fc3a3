#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bespoke/base/table.h"
#include "bespoke/base/text.h"
#include "sections.h"
#include "template.h"

namespace bespoke {

using namespace detail;

namespace {

struct FigureColumn {
  std::string title;
  std::string what;  // as a hint
  std::string format;
  double (*value)(const ReportRow&);
  double (*error)(const ReportRow&) = nullptr;  // standard error; null: none is known
};

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

std::vector<FigureColumn> figure_columns(const Report& report) {
  const auto any = [&](auto member) {
    return std::any_of(report.rows.begin(), report.rows.end(),
                       [&](const ReportRow& row) { return (row.*member).has_value(); });
  };
  std::vector<FigureColumn> columns = {
      {report.unit == "evaluation" ? "NFE" : report.unit + "s", report.unit + "s per sample",
       "{:.0f}", [](const ReportRow& row) { return double(row.cost); }},
      {"PSNR, dB", "mean over samples ± standard error", "{:.2f}",
       [](const ReportRow& row) { return row.psnr; },
       [](const ReportRow& row) { return row.psnr_error; }},
      {"SNR, dB", "mean over samples", "{:.2f}", [](const ReportRow& row) { return row.snr; }},
      {"MSE, median", "of the samples' mean squared errors", "{:.2e}",
       [](const ReportRow& row) { return row.mse_median; }}};
  if (any(&ReportRow::latent_psnr)) {
    columns.push_back({"PSNR of latents, dB", "before decoding, relative to their range", "{:.2f}",
                       [](const ReportRow& row) { return row.latent_psnr.value_or(kNoFigure); }});
  }
  if (any(&ReportRow::frechet_reference)) {
    columns.push_back(
        {"Fréchet, reference", "Fréchet distance to the reference's samples", "{:.3g}",
         [](const ReportRow& row) { return row.frechet_reference.value_or(kNoFigure); }});
  }
  if (any(&ReportRow::frechet_real)) {
    columns.push_back({"Fréchet, real", "Fréchet distance to real data", "{:.3g}",
                       [](const ReportRow& row) { return row.frechet_real.value_or(kNoFigure); }});
  }
  if (any(&ReportRow::agreement)) {
    columns.push_back(
        {"agreement, %", "of judged samples, those that show what their prompts say", "{:.1f}",
         [](const ReportRow& row) { return 100 * row.agreement.value_or(kNoFigure); }});
  }
  columns.push_back({"ms per sample", "in batches, on the machine of the report", "{:.2f}",
                     [](const ReportRow& row) { return 1e3 * row.seconds; }});
  return columns;
}

std::string figure_cell(const FigureColumn& column, const ReportRow& row) {
  const double value = column.value(row);
  if (std::isnan(value)) return "<td data-value=\"\">–</td>";
  // Infinite where a solver is exact: sorted as such, by a number that HTML and JavaScript share.
  if (std::isinf(value)) return "<td data-value=\"1e999\">∞</td>";
  std::string text = fmt::format(fmt::runtime(column.format), value);
  if (column.error != nullptr && column.error(row) > 0) {
    text += " ± " + fmt::format(fmt::runtime(column.format), column.error(row));
  }
  return fmt::format("<td data-value=\"{}\">{}</td>", exact(value), text);
}

std::string head_cell(const std::string& title, const std::string& what) {
  return fmt::format("<th scope=\"col\" title=\"{}\"><button type=\"button\">{}</button></th>",
                     escape_html(what), escape_html(title));
}

std::string need_cell(const CostNeeded& needed, int cost) {
  const std::string text = escape_html(to_string(needed));
  // A bound says nothing of how many times as many are needed.
  if (needed.kind != CostNeeded::Kind::interpolated) return "<td>" + text + "</td>";
  return fmt::format("<td>{} <small>{:.1f}×</small></td>", text, needed.cost / cost);
}

// Looked for on behalf of one solver only.
std::string catalogue_row(const Report& report, const std::vector<Finding>& findings) {
  if (!report.catalogue) return "";
  std::string html = "<tr><th scope=\"row\">the best of the catalogue</th>";
  for (const auto& finding : findings) {
    html +=
        finding.catalogue ? need_cell(finding.catalogue->needed, finding.row.cost) : "<td>–</td>";
  }
  return html + "</tr>\n";
}

}  // namespace

std::string figures_table_html(const Report& report) {
  const auto columns = figure_columns(report);
  std::string html = "<table class=\"sortable\"><thead><tr>" + head_cell("solver", "its name");
  for (const auto& column : columns) html += head_cell(column.title, column.what);
  html += "</tr></thead><tbody>\n";
  for (const auto& row : report.rows) {
    html += fmt::format("<tr{}><th scope=\"row\">{}</th>",
                        row.distilled ? " class=\"distilled\"" : "", escape_html(row.solver));
    for (const auto& column : columns) html += figure_cell(column, row);
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

std::string figures_csv(const Report& report) {
  using nlohmann::json;
  Table table({{"solver"},
               {report.unit + "s"},
               {"psnr_db"},
               {"psnr_error_db"},
               {"snr_db"},
               {"mse_median"},
               {"latent_psnr_db"},
               {"fd_ref"},
               {"fd_real"},
               {"agreement"},
               {"of"}});
  const auto number = [](double value) { return std::isfinite(value) ? json(value) : json(); };
  const auto optional = [&](const std::optional<double>& value) {
    return number(value.value_or(kNoFigure));
  };
  for (const auto& row : report.rows) {
    table.add_row({row.solver, row.cost, number(row.psnr), number(row.psnr_error), number(row.snr),
                   number(row.mse_median), optional(row.latent_psnr),
                   optional(row.frechet_reference), optional(row.frechet_real),
                   optional(row.agreement), report.of});
  }
  return table.render(TableFormat::csv);
}

std::string equal_table_html(const Report& report, const std::vector<Finding>& findings) {
  const auto names = baseline_names(report);
  if (findings.empty() || names.empty()) return "";
  std::string html = "<table><thead><tr><th scope=\"col\">as good as</th>";
  for (const auto& finding : findings) {
    html += fmt::format("<th scope=\"col\">{} at {}<br>{:.1f} dB</th>",
                        escape_html(finding.row.solver), finding.row.cost, finding.row.psnr);
  }
  html += "</tr></thead><tbody>\n";
  html += catalogue_row(report, findings);
  for (size_t i = 0; i < names.size(); ++i) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", escape_html(names[i]));
    for (const auto& finding : findings) {
      html += need_cell(finding.needs[i].needed, finding.row.cost);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

}  // namespace bespoke
