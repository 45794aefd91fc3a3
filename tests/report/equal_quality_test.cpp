#include "bespoke/report/equal_quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bespoke {
namespace {

using Kind = CostNeeded::Kind;

void expect_needed(const CostNeeded& found, Kind kind, double nfe, const char* text) {
  EXPECT_EQ(found.kind, kind);
  EXPECT_NEAR(found.cost, nfe, 1e-12);
  EXPECT_EQ(to_string(found), text);
}

TEST(EqualQuality, InterpolatesBetweenMeasuredPoints) {
  // 34 lies 4/10 of the way from 30 to 40, so 8 + 0.4 * 8.
  expect_needed(cost_needed({{4, 20}, {8, 30}, {16, 40}}, 34), Kind::interpolated, 11.2, "11.2");
  expect_needed(cost_needed({{4, 20}, {8, 30}}, 30), Kind::interpolated, 8, "8.0");
}

TEST(EqualQuality, TakesPointsInAnyOrder) {
  expect_needed(cost_needed({{16, 40}, {4, 20}, {8, 30}}, 25), Kind::interpolated, 6, "6.0");
}

TEST(EqualQuality, SaysWhatIsOnlyBounded) {
  expect_needed(cost_needed({{4, 20}, {20, 30}}, 31), Kind::more_than, 20, "> 20");
  expect_needed(cost_needed({{4, 20}, {20, 30}}, 19), Kind::at_most, 4, "≤ 4");
  expect_needed(cost_needed({}, 19), Kind::never, 0, "diverged");
}

TEST(EqualQuality, TakesTheFirstCrossingOfACurveThatTurns) {
  expect_needed(cost_needed({{4, 20}, {8, 30}, {12, 22}, {16, 40}}, 28), Kind::interpolated, 7.2,
                "7.2");
}

TEST(EqualQuality, PassesOverWhatDiverged) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_needed(cost_needed({{4, nan}, {8, 30}, {12, nan}, {16, 40}}, 35), Kind::interpolated, 12,
                "12.0");
  expect_needed(cost_needed({{4, nan}}, 35), Kind::never, 0, "diverged");
}

TEST(EqualQuality, ReachesAnExactResultWhereItWasMeasured) {
  const double infinite = std::numeric_limits<double>::infinity();
  expect_needed(cost_needed({{4, 20}, {8, infinite}}, 60), Kind::interpolated, 8, "8.0");
}

TEST(SearchCost, DoublesAndHalves) {
  std::vector<int> asked;
  const auto search = [&](double psnr, int most) {
    asked.clear();
    return search_cost(8, most, psnr, [&](int cost) {
      asked.push_back(cost);
      return double(cost);
    });
  };
  expect_needed(search(21.5, 40), Kind::interpolated, 21.5, "21.5");
  EXPECT_EQ(asked, (std::vector<int>{8, 16, 32, 24, 20}));
  expect_needed(search(39, 40), Kind::interpolated, 39, "39.0");
  expect_needed(search(41, 40), Kind::more_than, 40, "> 40");
  EXPECT_EQ(asked, (std::vector<int>{8, 16, 32, 40}));
  expect_needed(search(7, 40), Kind::at_most, 8, "≤ 8");
  EXPECT_EQ(asked, (std::vector<int>{8}));
  expect_needed(search(9, 8), Kind::more_than, 8, "> 8");
}

}  // namespace
}  // namespace bespoke
