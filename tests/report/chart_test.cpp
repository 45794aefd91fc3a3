#include "bespoke/report/chart.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/png.h"
#include "bespoke/report/comparison_grid.h"
#include "bespoke/report/report_pictures.h"
#include "made_up_report.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

torch::Tensor pixels_of(const std::string& png) {
  const testing::TemporaryFolder folder;
  write_file_atomically(folder.path() / "x.png", png);
  return read_png(folder.path() / "x.png").image.to(torch::kInt);
}

// How many pixels are the accent colour, which only what is emphasised has.
torch::Tensor accent(const torch::Tensor& image) {
  return (image[0] - 199).abs().lt(12) & (image[1] - 66).abs().lt(12) &
         (image[2] - 26).abs().lt(12);
}

LineChart rising() {
  return {"A title",
          "what it is of",
          "evaluations",
          "PSNR in dB",
          {{"plain", {{4, 20}, {8, 25}, {16, 30}}, false}, {"best", {{4, 30}, {16, 60}}, true}}};
}

class Chart : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      line_chart_png(rising());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("install libcairo2-dev"), std::string::npos);
      GTEST_SKIP() << error.what();
    }
  }
};

class ComparisonGridPng : public Chart {};
class ReportPictures : public Chart {};

TEST_F(Chart, DrawsTheEmphasisedLineWhereItRuns) {
  const torch::Tensor image = pixels_of(line_chart_png(rising()));
  ASSERT_EQ(image.size(0), 3);
  EXPECT_EQ(image.size(2), 1600);
  const torch::Tensor where = accent(image).nonzero();  // (y, x)
  ASSERT_GT(where.size(0), 1000);
  // It rises: of its pixels, those at the left lie lower on the sheet than those at the right.
  const torch::Tensor x = where.select(1, 1), y = where.select(1, 0).to(torch::kDouble);
  const torch::Tensor middle = x.to(torch::kDouble).median();
  EXPECT_GT(y.index({x < middle}).mean().item<double>(),
            y.index({x >= middle}).mean().item<double>() + 100);
}

TEST_F(Chart, IsWhiteAroundItsInk) {
  const torch::Tensor image = pixels_of(line_chart_png(rising()));
  EXPECT_TRUE(image.slice(1, 0, 20).eq(255).all().item<bool>());
  EXPECT_TRUE(image.slice(2, -20).eq(255).all().item<bool>());
  EXPECT_LT(image.min().item<int>(), 60) << "no text was drawn";
  // Between the heading at the left and the end of the upper line there is nothing but one
  // gridline.
  const torch::Tensor empty = image.slice(1, 40, 300).slice(2, 600, 1000);
  EXPECT_LT(empty.ne(255).any(0).any(1).sum().item<int>(), 6);
}

TEST_F(Chart, LeavesOutWhatDivergedAndRefusesNothing) {
  LineChart chart = rising();
  chart.series[0].points[1].second = NAN;
  EXPECT_FALSE(line_chart_png(chart).empty());
  for (auto& series : chart.series) series.points = {{4, NAN}};
  EXPECT_THROW(line_chart_png(chart), Error);
}

TEST_F(Chart, DrawsASinglePoint) {
  LineChart chart = rising();
  chart.series = {{"best", {{8, 45.8}}, true}};
  EXPECT_GT(accent(pixels_of(line_chart_png(chart))).sum().item<int>(), 50);
}

TEST_F(Chart, MarksTimesWhereTheyAre) {
  NsSolver solver;
  solver.times = {0.5, 1};
  solver.a = {1};
  solver.b = {{0.5}};
  const torch::Tensor image = pixels_of(time_grid_png(solver, "", ""));
  // Right of the row's name there is one dot, halfway along a line from 108 to 762 points.
  const torch::Tensor columns = accent(image).slice(1, 240).nonzero().select(1, 1) + 240;
  EXPECT_NEAR(columns.to(torch::kDouble).mean().item<double>(), 2 * 435, 2);
}

TEST_F(Chart, ColoursCoefficientsBySign) {
  NsSolver solver;
  solver.times = {0, 0.5, 1};
  solver.a = {1, 1};
  solver.b = {{0.5}, {-0.5, 0.5}};
  const torch::Tensor image = pixels_of(heat_map_png(solver, "", ""));
  const torch::Tensor blue = (image[2] - image[0]) > 60, red = (image[0] - image[2]) > 60;
  // A cell is 62 x 26 points, less the letters in it: one is negative, four are positive.
  EXPECT_NEAR(blue.sum().item<double>(), 62 * 26 * 4, 900);
  EXPECT_NEAR(red.sum().item<double>(), 4 * 62 * 26 * 4, 3600);
}

TEST_F(Chart, ShowsWhatASolverGuidesItselfWith) {
  NsSolver solver;
  solver.times = {0, 0.5, 1};
  solver.a = {1, 1};
  solver.b = {{0.5}, {0.5, 0.5}};
  const torch::Tensor plain = pixels_of(heat_map_png(solver, "", ""));
  solver.guided = {0};
  solver.c = {{-1}, {-1}};
  const torch::Tensor image = pixels_of(heat_map_png(solver, "", ""));
  const auto blue = [](const torch::Tensor& of) {
    return ((of[2] - of[0]) > 60).sum().item<double>();
  };
  EXPECT_EQ(blue(plain), 0);
  EXPECT_NEAR(blue(image), 2 * 62 * 26 * 4, 1800);
}

TEST_F(Chart, CanCountInPowersOfTen) {
  // From 100 over 10,000 to a million: straight on a logarithmic axis, bent on another.
  LineChart chart{"", "", "", "", {{"", {{1e2, 1}, {1e4, 2}, {1e6, 3}}, true}}};
  const auto lowest_of_the_middle = [&] {
    const torch::Tensor where = accent(pixels_of(line_chart_png(chart))).nonzero();
    const torch::Tensor x = where.select(1, 1), y = where.select(1, 0);
    const auto middle = (x.min() + x.max()) / 2;
    return y.masked_select((x - middle).abs() < 4).to(torch::kDouble).mean().item<double>() -
           (y.min() + y.max()).item<double>() / 2;
  };
  const double bent = lowest_of_the_middle();
  chart.logarithmic = true;
  EXPECT_LT(std::abs(lowest_of_the_middle()), 12);
  EXPECT_GT(std::abs(bent), 40);
}

TEST_F(ComparisonGridPng, ShowsEveryPixelAsASquare) {
  // One image of two by two: red, green, blue and grey; a grid of 72 points, 144 pixels.
  const torch::Tensor corner = torch::tensor({255, 0, 0, 90, 0, 255, 0, 90, 0, 0, 255, 90});
  const torch::Tensor image = corner.reshape({1, 3, 2, 2}).to(torch::kByte);
  const torch::Tensor page = pixels_of(comparison_grid_png({"", "", {{{"name"}, image}}, {}}));
  const torch::Tensor red = (page[0] == 255) & (page[1] == 0) & (page[2] == 0);
  const torch::Tensor green = (page[0] == 0) & (page[1] == 255) & (page[2] == 0);
  EXPECT_EQ(red.sum().item<int>(), 72 * 72);
  EXPECT_EQ(green.sum().item<int>(), 72 * 72);
}

TEST_F(ComparisonGridPng, RefusesRowsThatDoNotMatch) {
  const torch::Tensor two = torch::zeros({2, 1, 4, 4}, torch::kByte);
  EXPECT_THROW(comparison_grid_png({"", "", {{{"a"}, two}, {{"b"}, two.narrow(0, 0, 1)}}, {}}),
               Error);
  EXPECT_THROW(comparison_grid_png({"", "", {{{"a"}, two}}, {{"one"}}}), Error);
  EXPECT_THROW(comparison_grid_png({"", "", {}, {}}), Error);
}

TEST_F(ComparisonGridPng, NamesItsColumnsInLinesOfTheirWidth) {
  const torch::Tensor two = torch::full({2, 1, 4, 4}, 200, torch::kByte);
  const auto page = [&](const std::string& name) {
    return pixels_of(comparison_grid_png({"", "", {{{"a"}, two}}, {{name, "", true}, {"b"}}}));
  };
  const torch::Tensor lettered = page("dpm++3m/lambda-range:from=-4.30");
  EXPECT_GT(lettered.size(1), page("dpm++3m").size(1)) << "takes more lines";
  EXPECT_EQ(lettered.size(2), page("dpm++3m").size(2)) << "and no more width";
  EXPECT_GT(accent(lettered).sum().item<int>(), 100);
}

TEST_F(ReportPictures, GiveEachPromptARow) {
  Report report = testing::made_up_image_report();
  const auto size_of_samples = [&] {
    return pixels_of(report_pictures(report).back().png).sizes().vec();
  };
  const auto by_solver = size_of_samples();
  report.gallery.prompts.assign(8, "a key on white");
  const auto by_prompt = size_of_samples();
  EXPECT_GT(by_prompt[1], by_solver[1]);  // eight rows instead of one for each solver
  EXPECT_LT(by_prompt[2], by_solver[2]);
}

TEST_F(ReportPictures, AreNamedForFiles) {
  std::vector<std::string> names;
  Report report = testing::made_up_image_report();
  report.solvers = {{"run/bns.json", 4, testing::made_up_solver(4)}};
  for (const auto& picture : report_pictures(report)) names.push_back(picture.name);
  EXPECT_EQ(names, (std::vector<std::string>{"psnr.png", "calls.png", "times-run-bns-json-nfe4.png",
                                             "coefficients-run-bns-json-nfe4.png", "samples.png"}));
}

TEST_F(ReportPictures, LeaveOutAChartWithoutFigures) {
  Report report;
  report.rows = {{"heun", 8, NAN}};
  EXPECT_TRUE(report_pictures(report).empty());
}

}  // namespace
}  // namespace bespoke
