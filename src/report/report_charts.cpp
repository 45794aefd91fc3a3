#include "report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "choices.h"
#include "sections.h"
#include "svg.h"
#include "template.h"

namespace bespoke {

namespace {

constexpr double kWide = 1000, kNarrow = 460;  // points; narrow ones stand beside each other

using Figure = std::function<ChartPoint(const ReportRow&)>;

// A line for each solver, distilled or not, in the order of the rows.
std::vector<ChartSeries> series_of(const Report& report, const Figure& figure) {
  std::vector<ChartSeries> series;
  for (const auto& row : report.rows) {
    auto found = std::find_if(series.begin(), series.end(),
                              [&](const ChartSeries& one) { return one.name == row.solver; });
    if (found == series.end()) {
      found = series.insert(found, {row.solver, {}, row.distilled});
    }
    found->points.push_back(figure(row));
  }
  return series;
}

bool has_points(const ChartSeries& series) {
  return std::any_of(series.points.begin(), series.points.end(),
                     [](const ChartPoint& point) { return std::isfinite(point.y); });
}

bool has_figures(const LineChart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), has_points);
}

std::string variable_of(const std::vector<ChartSeries>& series, size_t index) {
  return series[index].emphasised ? kAccent.property
                                  : series_colour(colour_place(series, index)).property;
}

// Buttons that hide and show the lines of their names; the page's script makes them work.
std::string legend_html(const LineChart& chart) {
  std::string html = "<div class=\"legend\">";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& one = chart.series[i];
    if (!has_points(one)) continue;
    html += fmt::format(
        "<button type=\"button\"{} aria-pressed=\"true\" style=\"--swatch:var({})\">"
        "<i></i>{}</button>",
        one.emphasised ? " class=\"distilled\"" : "", variable_of(chart.series, i),
        escape_html(one.name));
  }
  return html + "</div>\n";
}

std::string narrow_chart(const LineChart& chart, const std::string& label) {
  return line_chart_svg(chart, {kNarrow, 230, true, label});
}

// The chart that a wide screen shows over its whole width, and another that a phone can show.
std::string wide_chart(const LineChart& chart, const std::string& label) {
  return "<div class=\"on-wide\">" + line_chart_svg(chart, {kWide, 400, true, label}) +
         "</div><div class=\"on-narrow\">" + narrow_chart(chart, label) + "</div>\n";
}

// Distances span decades between few and many evaluations.
bool spans_decades(const LineChart& chart) {
  constexpr double kMany = 30;
  double least = 1e300, most = 0;
  for (const auto& one : chart.series) {
    for (const auto& point : one.points) {
      if (!std::isfinite(point.y)) continue;
      least = std::min(least, point.y), most = std::max(most, point.y);
    }
  }
  return least > 0 && most > kMany * least;
}

std::string frechet_figure(const Report& report, const char* id, const char* what,
                           std::optional<double> ReportRow::*member) {
  LineChart chart{"", "", report.unit + "s", "Fréchet distance",
                  series_of(report, [&](const ReportRow& row) {
                    return ChartPoint{double(row.cost), (row.*member).value_or(NAN)};
                  })};
  if (!has_figures(chart)) return "";
  chart.logarithmic_y = spans_decades(chart);
  const std::string label = fmt::format(
      "Line chart of the Fréchet distance to {} against the number of {}s; its numbers are in the "
      "table of figures",
      what, report.unit);
  return fmt::format(
      "<figure id=\"chart-{}\"><h3>To {}</h3>{}{}<figcaption>Fréchet distance between a solver’s "
      "samples and {}; lower is nearer. {}</figcaption></figure>\n",
      id, what, legend_html(chart), narrow_chart(chart, label), what, escape_html(report.of));
}

// The place of a solver's colour: those that have no line come after those that have one.
size_t baseline_place(const Report& report, const std::string& solver) {
  const auto names = baseline_names(report);
  return static_cast<size_t>(std::find(names.begin(), names.end(), solver) - names.begin());
}

std::vector<BaselineNeed> needs_of(const Finding& finding) {
  std::vector<BaselineNeed> needs = finding.needs;
  // Its name is too long for a label, and is in the headline.
  if (finding.catalogue) needs.push_back({"best of the catalogue", finding.catalogue->needed});
  needs.erase(std::remove_if(needs.begin(), needs.end(),
                             [](const BaselineNeed& need) {
                               return need.needed.kind == CostNeeded::Kind::never;
                             }),
              needs.end());
  std::stable_sort(needs.begin(), needs.end(), needs_less);
  return needs;
}

BarChart equal_chart(const Report& report, const Finding& finding, double most) {
  BarChart chart{report.unit + "s", {}, most};
  chart.bars.push_back(
      {finding.row.solver, double(finding.row.cost), std::to_string(finding.row.cost)});
  for (const auto& [solver, needed] : needs_of(finding)) {
    chart.bars.push_back({solver, needed.cost, to_string(needed), baseline_place(report, solver),
                          needed.kind == CostNeeded::Kind::more_than});
  }
  return chart;
}

double most_needed(const std::vector<Finding>& findings) {
  double most = 0;
  for (const auto& finding : findings) {
    most = std::max(most, double(finding.row.cost));
    for (const auto& need : needs_of(finding)) most = std::max(most, need.needed.cost);
  }
  return most;
}

// A line for each start; those that did not win stand back.
std::vector<ChartSeries> training_series(const TrainingCurve& curve, bool of_loss) {
  const auto best = best_iterate(curve.points);
  std::set<int> starts;
  for (const auto& point : curve.points) starts.insert(point.start);
  std::vector<ChartSeries> series;
  for (const int start : starts) {
    const bool wins = !best || best->start == start;
    ChartSeries one{
        starts.size() > 1 ? fmt::format("start {}", start + 1) : "kept start", {}, wins, false};
    for (const auto& point : curve.points) {
      if (point.start != start) continue;
      const double y = of_loss ? point.loss : point.validation_psnr.value_or(NAN);
      const bool kept = !of_loss && wins && best && point.iteration == best->iteration;
      one.points.push_back({double(point.iteration), y, 0, kept});
    }
    series.push_back(std::move(one));
  }
  return series;
}

std::string training_figure(const Report& report, const TrainingCurve& curve, bool of_loss) {
  const LineChart chart{"", "", "iteration", of_loss ? "loss" : "dB",
                        training_series(curve, of_loss)};
  const std::string drawn =
      has_figures(chart)
          ? narrow_chart(chart, of_loss ? "Line chart of the training loss by iteration"
                                        : "Line chart of the validation PSNR by iteration")
          : "";
  if (of_loss) {
    return fmt::format(
        "<figure><h3>Loss</h3>{}<figcaption>The optimiser’s own, on the batch before each "
        "iteration of the same distillation; lower is better.</figcaption></figure>\n",
        drawn);
  }
  const auto best = best_iterate(curve.points);
  const std::string kept =
      best ? fmt::format(" (iteration {}, {:.2f} dB)", best->iteration, *best->validation_psnr)
           : "";
  return fmt::format(
      "<figure><h3>Validation PSNR</h3>{}<figcaption>In dB, on pairs that were not trained on. "
      "The ringed point is the solver that was kept{}. {}</figcaption></figure>\n",
      drawn, kept, escape_html(report.of));
}

}  // namespace

LineChart quality_chart(const Report& report) {
  return {fmt::format("{}: PSNR against {}s", report.model, report.unit), report.of,
          report.unit + "s", "PSNR in dB", series_of(report, [](const ReportRow& row) {
            return ChartPoint{double(row.cost), row.psnr, row.psnr_error};
          })};
}

LineChart calls_chart(const Report& report) {
  LineChart chart{report.model + ": PSNR against the calls of distillation",
                  "On the validation samples of each, in the space of the model's own samples; a "
                  "gradient counts as two calls.",
                  "calls of the model",
                  "PSNR in dB",
                  {},
                  true};
  for (const auto& curve : report.training) {
    ChartSeries series{
        curve.solver + ", " + counted(curve.cost, report),
        {},
        curve.solver == report.featured_solver && curve.cost == report.featured_cost};
    for (const auto& [calls, psnr] : psnr_by_calls(curve)) series.points.push_back({calls, psnr});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::string quality_html(const Report& report) {
  const LineChart chart = quality_chart(report);
  if (!has_figures(chart)) return "";
  return legend_html(chart) +
         wide_chart(chart, fmt::format("Line chart of PSNR against the number of {}s for every "
                                       "solver; its numbers are in the table of figures",
                                       report.unit));
}

std::string frechet_charts_html(const Report& report) {
  return frechet_figure(report, "frechet_reference", "the reference’s samples",
                        &ReportRow::frechet_reference) +
         frechet_figure(report, "frechet_real", "real data", &ReportRow::frechet_real);
}

std::string equal_charts_html(const Report& report, const std::vector<Finding>& findings,
                              const Finding* best) {
  std::vector<Choice> choices;
  for (const auto& finding : findings) {
    const ReportRow& row = finding.row;
    const std::string label = fmt::format(
        "Bar chart of the {}s each solver needs for the quality of {}; its numbers are in the "
        "table beside it",
        report.unit, row.solver);
    choices.push_back(
        {fmt::format("{}, {} ({:.1f} dB)", row.solver, counted(row.cost, report), row.psnr),
         bar_chart_svg(equal_chart(report, finding, most_needed(findings)),
                       {kNarrow, 0, true, label}),
         &finding == best});
  }
  return choices_html("target", "As good as", choices);
}

std::string training_html(const Report& report, const Finding* best) {
  std::vector<Choice> choices;
  for (const auto& curve : report.training) {
    choices.push_back({curve.solver + ", " + counted(curve.cost, report),
                       "<div class=\"columns\">" + training_figure(report, curve, false) +
                           training_figure(report, curve, true) + "</div>",
                       is_of(best, curve.solver, curve.cost)});
  }
  return choices_html("curve-choice", "Show", choices);
}

}  // namespace bespoke
