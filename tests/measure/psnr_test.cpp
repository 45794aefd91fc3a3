#include "bespoke/measure/psnr.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/core/error.h"
#include "bespoke/measure/compare.h"
#include "bespoke/solver/catalogue.h"
#include "support.h"

namespace bespoke {
namespace {

TEST(Psnr, MatchesItsDefinition) {
  EXPECT_NEAR(psnr(0.04), 20, 1e-12);  // peak-to-peak 2: 10 log10(4 / 0.04)
  EXPECT_NEAR(psnr(1, 255), 48.1308, 1e-4);
  EXPECT_TRUE(std::isinf(psnr(0)));
  const auto a = torch::zeros({2, 3, 4}), b = torch::zeros({2, 3, 4});
  b[0].fill_(0.2);
  b[1].fill_(0.02);
  const auto errors = mean_squared_errors(a, b);
  EXPECT_NEAR(errors[0], 0.04, 1e-8);
  EXPECT_NEAR(errors[1], 0.0004, 1e-9);
  EXPECT_NEAR(mean_psnr(a, b), (20 + 40) / 2., 1e-4);  // of decibels, not of errors
  EXPECT_THROW(mean_squared_errors(a, torch::zeros({2, 3, 5})), Error);
}

TEST(Compare, DoesNotDependOnTheBatchSize) {
  const ModelPtr model =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);
  const auto x0 = testing::starting_noise(*model, 10);
  const std::vector<Contender> list = {
      {"euler", make_solver("euler", {8, fm_ot_schedule(), "", false})},
      {"rk4", make_solver("rk4", {8, fm_ot_schedule(), "", false})}};
  CompareOptions whole, parts;
  whole.tolerances = parts.tolerances = {1e-8, 1e-8};
  whole.batch = 10;
  parts.batch = 3;
  double last = 0;
  parts.on_progress = [&](double done) {
    EXPECT_GE(done, last);
    last = done;
  };
  const Comparison one = compare(model, list, x0, {}, whole);
  const Comparison many = compare(model, list, x0, {}, parts);
  EXPECT_NEAR(last, 1, 1e-12);
  EXPECT_EQ(one.reference_evaluations, many.reference_evaluations);
  for (size_t k = 0; k < list.size(); ++k) EXPECT_NEAR(one.rows[k].psnr, many.rows[k].psnr, 1e-9);
  EXPECT_GT(one.rows[1].psnr, one.rows[0].psnr + 10);
}

}  // namespace
}  // namespace bespoke
