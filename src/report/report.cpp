#include "bespoke/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bespoke/base/base64.h"
#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "page.h"
#include "sections.h"
#include "template.h"

namespace bespoke {

using namespace detail;

namespace {

std::string reference_clause(const Report& report) {
  const double cost = report.reference_cost;
  return cost > 0 ? fmt::format(" ({:.0f} {}s per sample)", cost, report.unit) : "";
}

// As a sentence begins with it.
std::string capitalised(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// Words in spans of their own, or lines would break after the hyphens of options.
std::string command_words(const std::string& command) {
  std::string html;
  for (const auto& word : split(command, ' ')) {
    html += fmt::format("{}<span>{}</span>", html.empty() ? "" : " ", escape_html(word));
  }
  return html;
}

}  // namespace

std::string commands_html(const Report& report) {
  std::string html;
  for (const auto& command : report.commands) {
    html += fmt::format(
        "<div class=\"command\"><pre><code>{}</code></pre>"
        "<button type=\"button\" class=\"copy\">Copy</button></div>\n",
        command_words(command));
  }
  return html;
}

std::string provenance_html(const Report& report) {
  std::string html;
  for (const auto& [name, value] : report.provenance) {
    html +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
  }
  return html;
}

std::string render_html(const Report& report) {
  const auto found = findings(report);
  const Finding* best = featured(found, report);
  return fill_template(page_html(),
                       {{"model", escape_html(report.model)},
                        {"date", escape_html(report.date)},
                        {"of", escape_html(report.of)},
                        {"peak", fmt::format("{:g}", report.peak)},
                        {"reference", reference_clause(report)},
                        {"unit", report.unit},
                        {"Unit", capitalised(report.unit)},
                        {"headline", headline_html(report, best)},
                        {"tiles", tiles_html(report, best)},
                        {"figures_table", figures_table_html(report)},
                        {"figures_csv", detail::data_uri("text/csv", figures_csv(report))},
                        {"quality", quality_html(report)},
                        {"equal_table", equal_table_html(report, found)},
                        {"equal_charts", equal_charts_html(report, found, best)},
                        {"frechet_charts", frechet_charts_html(report)},
                        {"gallery", gallery_html(report)},
                        {"solvers", solvers_html(report, best)},
                        {"training", training_html(report, best)},
                        {"commands", commands_html(report)},
                        {"provenance", provenance_html(report)},
                        {"css", std::string(page_css())},
                        {"js", std::string(page_js())}});
}

void write_report(const std::filesystem::path& path, const std::string& html, bool overwrite) {
  if (!overwrite && is_file(path)) {
    throw usage_error("'{}' is there already; choose another name or allow it to be written over",
                      path.string());
  }
  write_file_atomically(path, html);
}

}  // namespace bespoke
