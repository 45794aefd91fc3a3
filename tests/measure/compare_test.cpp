#include "bespoke/measure/compare.h"

#include <gtest/gtest.h>

#include "bespoke/solver/catalogue.h"
#include "support.h"

namespace bespoke {
namespace {

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
