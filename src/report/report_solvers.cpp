#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bespoke/base/base64.h"
#include "choices.h"
#include "largest.h"
#include "sections.h"
#include "template.h"

namespace bespoke {

namespace {

constexpr int kMostWrittenOut = 10;  // columns of numbers; above, colours alone

std::string dots(const std::vector<double>& times) {
  std::string html;
  for (size_t i = 0; i < times.size(); ++i) {
    html += fmt::format("<span class=\"dot\" style=\"left:{:.3f}%\" title=\"t{} = {:.4f}\"></span>",
                        100 * times[i], i, times[i]);
  }
  return html;
}

// Two number lines, and a line from where an evaluation would be to where it is.
std::string time_grid_html(const NsSolver& solver) {
  const auto count = static_cast<size_t>(solver.nfe());
  const std::vector<double> own(solver.times.begin(), solver.times.begin() + count);
  std::vector<double> uniform;
  std::string links, list;
  for (size_t i = 0; i < count; ++i) {
    uniform.push_back(double(i) / double(count));
    links += fmt::format("<line x1=\"{:.3f}\" y1=\"0\" x2=\"{:.3f}\" y2=\"10\"/>", 100 * uniform[i],
                         100 * own[i]);
    list += fmt::format("{}{:.4f}", i == 0 ? "" : ", ", own[i]);
  }
  return fmt::format(
      "<div class=\"timegrid\" role=\"img\" aria-label=\"Times of evaluation: {}\">"
      "<div class=\"track\" data-name=\"uniform\">{}</div>"
      "<svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg>"
      "<div class=\"track distilled\" data-name=\"distilled\">{}</div>"
      "<div class=\"axis\"><span>0 noise</span><span>0.25</span><span>0.5</span><span>0.75</span>"
      "<span>data 1</span></div></div>\n",
      list, dots(uniform), links, dots(own));
}

// `size` is the root of the share of the largest, or one large coefficient would bleach the others.
std::string heat_cell(const std::string& name, double value, double largest) {
  const double size = largest == 0 ? 0 : std::sqrt(std::abs(value) / largest);
  return fmt::format(
      "<td class=\"{}\" style=\"--size:{:.3f}\" data-name=\"{}\" data-value=\"{:.6g}\" "
      "tabindex=\"{}\">{:.2f}</td>",
      value < 0 ? "minus" : "plus", size, name, value, name == "a0" ? 0 : -1, value);
}

// The c of one step, under the columns of c; cells of later steps' b come first, empty.
std::string guidance_cells(const NsSolver& solver, size_t i, double largest) {
  std::string html;
  for (size_t j = solver.b[i].size(); j < solver.b.size(); ++j) html += "<td></td>";
  for (size_t k = 0; k < solver.c[i].size(); ++k) {
    html += heat_cell(fmt::format("c{},{}", i, solver.guided[k]), solver.c[i][k], largest);
  }
  return html;
}

std::string heat_map_html(const NsSolver& solver) {
  const int count = solver.nfe();
  double largest_b = 0;
  for (const auto& row : solver.b) largest_b = std::max(largest_b, largest_size(row));
  double largest_c = 0;
  for (const auto& row : solver.c) largest_c = std::max(largest_c, largest_size(row));
  const double largest_a = largest_size(solver.a);
  std::string html = fmt::format(
      "<table class=\"heat{}\"><thead><tr><th scope=\"col\">step</th><th scope=\"col\">t</th>"
      "<th scope=\"col\">a</th>",
      count > kMostWrittenOut ? " dense" : "");
  const auto head = [&](char letter, int j) {
    html += fmt::format("<th scope=\"col\">{}<sub>{}</sub></th>", letter, j);
  };
  for (int j = 0; j < count; ++j) head('b', j);
  for (const int j : solver.guided) head('c', j);
  html += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < solver.a.size(); ++i) {
    html += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"time\">{:.3f}</td>", i,
                        solver.times[i]);
    html += heat_cell(fmt::format("a{}", i), solver.a[i], largest_a);
    for (size_t j = 0; j < solver.b[i].size(); ++j) {
      html += heat_cell(fmt::format("b{},{}", i, j), solver.b[i][j], largest_b);
    }
    if (solver.guides_itself()) html += guidance_cells(solver, i, largest_c);
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

// The file that the solver is from, whichever of several it is.
std::string download_html(const ReportSolver& entry) {
  if (entry.file.empty()) return "";
  return fmt::format(
      "<p class=\"downloads\"><a class=\"solver-file\" download=\"bns.solver.json\" href=\"{}\">"
      "Download the solver (JSON)</a></p>\n",
      detail::data_uri("application/json", entry.file));
}

std::string solver_html(const ReportSolver& entry, const Report& report) {
  const std::string name = escape_html(entry.solver);
  const NsSolver& solver = entry.numbers;
  return fmt::format(
      "<div class=\"solver\" data-solver=\"{0}\" data-cost=\"{1}\">\n"
      "<h3>{0}, {6}</h3>\n<figure>{2}"
      "<figcaption>When the model is evaluated, against a uniform grid. The noise is scaled by "
      "{3:.4f} to be x<sub>0</sub> at t<sub>0</sub> = {4:.4f}.</figcaption></figure>\n"
      "<figure style=\"margin-top:28px\"><div class=\"scroll\" role=\"region\" tabindex=\"0\" "
      "aria-label=\"Coefficients of {0}\">{5}</div>"
      "<p class=\"readout\" role=\"status\">Point at a coefficient, or move with the arrow keys, "
      "to read it.</p>"
      "<figcaption>The coefficients of {0}, a row for each step i: "
      "<span>negative<span class=\"scale\"></span>positive</span>. The colour grows with the root "
      "of the size; a and b are scaled each on their own{7}.</figcaption></figure>\n{8}</div>\n",
      name, entry.cost, time_grid_html(solver), solver.start_scale, solver.times.front(),
      heat_map_html(solver), counted(entry.cost, report),
      solver.guides_itself()
          ? ". To the sum come c<sub>ij</sub> d<sub>j</sub>, where d<sub>j</sub> is the difference "
            "between the conditional velocity and the unconditional one"
          : "",
      download_html(entry));
}

}  // namespace

std::string solvers_html(const Report& report, const Finding* best) {
  std::vector<Choice> choices;
  for (const auto& entry : report.solvers) {
    choices.push_back({entry.solver + ", " + counted(entry.cost, report),
                       solver_html(entry, report), is_of(best, entry.solver, entry.cost)});
  }
  return choices_html("solver-choice", "Show", choices);
}

}  // namespace bespoke
