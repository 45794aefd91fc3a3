#include "bespoke/report/chart.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/report/comparison_grid.h"
#include "bespoke/report/report_pictures.h"
#include "made_up_report.h"
#include "svg_reading.h"

namespace bespoke {

using namespace detail;
using testing::corners;
using testing::elements;
using testing::number;

namespace {

const std::string kAccent = "#c8431a", kNegative = "#2662a8";

LineChart rising() {
  return {"A title",
          "what it is of",
          "evaluations",
          "PSNR in dB",
          {{"plain", {{4, 20}, {8, 25}, {16, 30}}, false}, {"best", {{4, 30}, {16, 60}}, true}}};
}

std::vector<std::pair<double, double>> accent_line(const LineChart& chart,
                                                   const ChartFrame& frame = {}) {
  const auto lines = elements(line_chart_svg(chart, frame), "polyline", "stroke", kAccent);
  return lines.empty() ? std::vector<std::pair<double, double>>{} : corners(lines.front());
}

TEST(Chart, DrawsLinesWhereTheyRun) {
  const std::string svg = line_chart_svg(rising());
  const auto best = accent_line(rising());
  ASSERT_EQ(best.size(), 2u);
  EXPECT_LT(best[0].first, best[1].first);
  EXPECT_GT(best[0].second, best[1].second + 100) << "it rises, and y counts downwards";
  const auto plain = corners(elements(svg, "polyline", "stroke", "#2f6fb3").front());
  ASSERT_EQ(plain.size(), 3u);
  // Where both are 30, at the end of one and at the begin of the other, they are as high.
  EXPECT_NEAR(plain[2].second, best[0].second, 0.02);
  EXPECT_NEAR(plain[1].first - plain[0].first, (plain[2].first - plain[0].first) / 3, 0.02);
  for (const char* said : {"A title", "what it is of", "evaluations", "PSNR in dB", ">plain<"}) {
    EXPECT_NE(svg.find(said), std::string::npos) << said;
  }
}

TEST(Chart, StaysOnItsSheet) {
  LineChart chart = rising();
  chart.series[0].name = "unipc2-bh2/lambda-range:from=-4.30,to=4.50";
  for (const ChartFrame& frame : {ChartFrame{}, ChartFrame{460, 230, true, "narrow"}}) {
    const std::string svg = line_chart_svg(chart, frame);
    for (const auto& line : elements(svg, "polyline")) {
      for (const auto& [x, y] : corners(line)) {
        EXPECT_GE(x, 0);
        EXPECT_LE(x, frame.width);
        EXPECT_GE(y, 0);
      }
    }
  }
}

TEST(Chart, LeavesOutWhatDivergedAndRefusesNothing) {
  LineChart chart = rising();
  chart.series[1].points.push_back({20, NAN});
  EXPECT_EQ(accent_line(chart).size(), 2u);
  for (auto& series : chart.series) series.points = {{4, NAN}};
  EXPECT_THROW(line_chart_svg(chart), Error);
}

TEST(Chart, KeepsColoursWhereAnotherLineIsLeftOut) {
  LineChart chart = rising();
  chart.series.push_back({"third", {{4, 22}, {16, 33}}});
  const std::string second = "#1f8a7d";
  EXPECT_EQ(elements(line_chart_svg(chart), "polyline", "stroke", second).size(), 2u)
      << "the line and the one to its name";
  chart.series[0].points = {{4, NAN}};
  EXPECT_EQ(elements(line_chart_svg(chart), "polyline", "stroke", second).size(), 2u);
}

TEST(Chart, DrawsASinglePoint) {
  LineChart chart = rising();
  chart.series = {{"best", {{8, 45.8}}, true}};
  EXPECT_EQ(elements(line_chart_svg(chart), "circle", "fill", kAccent).size(), 1u);
}

TEST(Chart, DrawsStandardErrorsAsBars) {
  LineChart chart{"", "", "", "", {{"", {{4, 30, 2}, {8, 40}}, true}}};
  const auto line = accent_line(chart);
  const double decibel = (line[0].second - line[1].second) / 10;
  const auto bars = elements(line_chart_svg(chart), "polyline", "stroke", kAccent);
  ASSERT_EQ(bars.size(), 5u);  // the line, two ends and what joins them, and one to the name
  const auto bar = corners(bars[3]);
  EXPECT_NEAR(bar[0].second - bar[1].second, 4 * decibel, 0.05);
  EXPECT_NEAR((bar[0].second + bar[1].second) / 2, line[0].second, 0.05);
}

TEST(Chart, RingsWhatWasKept) {
  LineChart chart{"", "", "", "", {{"", {{1, 30}, {2, NAN}, {3, 40, 0, true}}, true, false}}};
  const auto discs = elements(line_chart_svg(chart), "circle", "fill", kAccent);
  ASSERT_EQ(discs.size(), 1u);
  EXPECT_EQ(number(discs[0], "cx"), accent_line(chart).back().first);
}

TEST(Chart, SaysItsFiguresWhereAPointerRests) {
  LineChart chart = rising();
  chart.series[1].points[1].error = 0.25;
  const std::string svg = line_chart_svg(chart);
  EXPECT_NE(svg.find("<title>best, 16 evaluations: 60 ± 0.25</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>plain, 8 evaluations: 25</title>"), std::string::npos);
}

TEST(Chart, HasThePagesColoursOnAPage) {
  const std::string svg = line_chart_svg(rising(), {460, 230, true, "what \"it\" shows"});
  EXPECT_NE(svg.find("aria-label=\"what &quot;it&quot; shows\""), std::string::npos);
  EXPECT_NE(svg.find("stroke:var(--accent)"), std::string::npos);
  EXPECT_NE(svg.find("<g data-name=\"plain\">"), std::string::npos);
  EXPECT_EQ(svg.find("#c8431a"), std::string::npos);
  EXPECT_EQ(svg.find("A title"), std::string::npos) << "the page has it";
}

TEST(Chart, EscapesNames) {
  LineChart chart = rising();
  chart.series[0].name = "</svg><script>";
  EXPECT_EQ(line_chart_svg(chart).find("<script>"), std::string::npos);
}

TEST(Chart, MarksTimesWhereTheyAre) {
  NsSolver solver;
  solver.times = {0.5, 1};
  solver.a = {1};
  solver.b = {{0.5}};
  const auto dots = elements(time_grid_svg(solver, "", ""), "circle", "fill", kAccent);
  ASSERT_EQ(dots.size(), 1u);
  EXPECT_NEAR(number(dots[0], "cx"), 435, 0.1) << "halfway along a line from 108 to 762";
}

TEST(Chart, ColoursCoefficientsBySign) {
  NsSolver solver;
  solver.times = {0, 0.5, 1};
  solver.a = {1, 1};
  solver.b = {{0.5}, {-0.5, 0.5}};
  const std::string svg = heat_map_svg(solver, "", "");
  EXPECT_EQ(elements(svg, "rect", "fill", kNegative).size(), 1u);
  EXPECT_EQ(elements(svg, "rect", "fill", kAccent).size(), 4u);
  solver.guided = {0};
  solver.c = {{-1}, {-0.25}};
  const auto cells = elements(heat_map_svg(solver, "", ""), "rect", "fill", kNegative);
  ASSERT_EQ(cells.size(), 3u);
  // By the root of their share of the largest, over the least there is.
  const auto strength = [](const auto& cell) { return number(cell, "fill-opacity") - 0.06; };
  EXPECT_NEAR(strength(cells[2]) / strength(cells[0]), 0.5, 0.01);
}

TEST(Chart, CanCountInPowersOfTen) {
  // From 100 over 10,000 to a million: straight on a logarithmic axis, bent on another.
  LineChart chart{"", "", "", "", {{"", {{1e2, 1}, {1e4, 2}, {1e6, 3}}, true}}};
  const auto bend = [&](bool of_x) {
    const auto line = accent_line(chart);
    const auto value = [&](size_t k) { return of_x ? line[k].first : line[k].second; };
    return std::abs(value(1) - (value(0) + value(2)) / 2);
  };
  EXPECT_GT(bend(true), 40);
  chart.logarithmic_x = true;
  EXPECT_LT(bend(true), 0.02);
  chart = {"", "", "", "", {{"", {{1, 0.01}, {2, 1}, {3, 100}}, true}}};
  EXPECT_GT(bend(false), 40);
  chart.logarithmic_y = true;
  EXPECT_LT(bend(false), 0.02);
}

TEST(BarChart, HasBarsAsLongAsTheirValues) {
  const BarChart chart{
      "evaluations",
      {{"bns", 8, "8"}, {"midpoint", 16, "16.0", 0}, {"euler", 24, "> 24", 1, true}},
      24};
  const std::string svg = bar_chart_svg(chart, {460, 0, false, ""});
  const auto own = elements(svg, "rect", "fill", kAccent);
  const auto other = elements(svg, "rect", "fill", "#2f6fb3");
  const auto bound = elements(svg, "rect", "fill", "#1f8a7d");
  ASSERT_EQ(own.size() + other.size() + bound.size(), 3u);
  EXPECT_NEAR(number(other[0], "width"), 2 * number(own[0], "width"), 0.05);
  EXPECT_NEAR(number(bound[0], "width"), 3 * number(own[0], "width"), 0.05);
  EXPECT_EQ(other[0].count("fill-opacity"), 0u);
  EXPECT_LT(number(bound[0], "fill-opacity"), 0.5) << "pale, since it goes on";
  EXPECT_NE(svg.find("&gt; 24"), std::string::npos);
  EXPECT_THROW(bar_chart_svg({}, {}), Error);
}

TEST(BarChart, BreaksLongNames) {
  const BarChart chart{"", {{"unipc2-bh2/lambda-range:from=-4.30,to=4.50", 8, "8"}}, 8};
  const std::string svg = bar_chart_svg(chart, {460, 0, true, ""});
  for (const char* line : {">unipc2-bh2/<", ">lambda-range:<", ">from=-4.30,to=4.50<"}) {
    EXPECT_NE(svg.find(line), std::string::npos) << line;
  }
}

TEST(ComparisonGrid, ShowsEveryImageOnce) {
  const torch::Tensor images = torch::full({3, 1, 4, 6}, 200, torch::kByte);
  const std::string svg = comparison_grid_svg({"", "", {{{"a"}, images}, {{"b"}, images}}, {}});
  const auto drawn = elements(svg, "image");
  ASSERT_EQ(drawn.size(), 6u);
  for (const auto& image : drawn) {
    // Of 6 by 4 pixels, each a square of 12 points.
    EXPECT_EQ(number(image, "width"), 72);
    EXPECT_EQ(number(image, "height"), 48);
    EXPECT_EQ(image.at("href").rfind("data:image/png;base64,iVBOR", 0), 0u);
  }
  EXPECT_EQ(number(drawn[1], "y"), number(drawn[0], "y"));
  EXPECT_GE(number(drawn[1], "x"), number(drawn[0], "x") + 72);
  EXPECT_GE(number(drawn[3], "y"), number(drawn[0], "y") + 48);
}

TEST(ComparisonGrid, RefusesRowsThatDoNotMatch) {
  const torch::Tensor two = torch::zeros({2, 1, 4, 4}, torch::kByte);
  EXPECT_THROW(comparison_grid_svg({"", "", {{{"a"}, two}, {{"b"}, two.narrow(0, 0, 1)}}, {}}),
               Error);
  EXPECT_THROW(comparison_grid_svg({"", "", {{{"a"}, two}}, {{"one"}}}), Error);
  EXPECT_THROW(comparison_grid_svg({"", "", {{{"a"}, two[0]}}, {}}), Error);
  EXPECT_THROW(comparison_grid_svg({"", "", {}, {}}), Error);
}

TEST(ComparisonGrid, NamesItsColumnsInLinesOfTheirWidth) {
  const torch::Tensor two = torch::full({2, 1, 4, 4}, 200, torch::kByte);
  const auto sheet = [&](const std::string& name) {
    return elements(comparison_grid_svg({"", "", {{{"a"}, two}}, {{name, "", true}, {"b"}}}),
                    "rect")
        .front();
  };
  const auto lettered = sheet("dpm++3m/lambda-range:from=-4.30"), plain = sheet("dpm++3m");
  EXPECT_GT(number(lettered, "height"), number(plain, "height")) << "takes more lines";
  EXPECT_EQ(lettered.at("width"), plain.at("width")) << "and no more width";
}

TEST(ReportPictures, GiveEachPromptARow) {
  Report report = testing::made_up_image_report();
  const auto sheet = [&] { return elements(report_pictures(report).back().svg, "rect").front(); };
  const auto by_solver = sheet();
  report.gallery.prompts.assign(8, "a key on white");
  const auto by_prompt = sheet();
  // Eight rows instead of one for each solver.
  EXPECT_GT(number(by_prompt, "height"), number(by_solver, "height"));
  EXPECT_LT(number(by_prompt, "width"), number(by_solver, "width"));
}

TEST(ReportPictures, AreNamedForFiles) {
  std::vector<std::string> names;
  Report report = testing::made_up_image_report();
  report.solvers = {{"run/bns.json", 4, testing::made_up_solver(4)}};
  for (const auto& picture : report_pictures(report)) names.push_back(picture.name);
  EXPECT_EQ(names, (std::vector<std::string>{"psnr.svg", "calls.svg", "times-run-bns-json-nfe4.svg",
                                             "coefficients-run-bns-json-nfe4.svg", "samples.svg"}));
}

TEST(ReportPictures, LeaveOutAChartWithoutFigures) {
  Report report;
  report.rows = {{"heun", 8, NAN}};
  EXPECT_TRUE(report_pictures(report).empty());
}

}  // namespace
}  // namespace bespoke
