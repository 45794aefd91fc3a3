#include "bespoke/measure/best_of_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/distill/starts.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/errors.h"
#include "support.h"

namespace bespoke {
namespace {

TEST(BestOfCatalogue, ContendersAreOfAllMethodsAndGridsAndNoTwoTheSame) {
  const FieldDescription fm = {Prediction::velocity, fm_ot_schedule(), {}};
  const auto list = catalogue_contenders(6, fm, 0.5);
  std::set<std::string> names, methods;
  for (const auto& contender : list) {
    EXPECT_EQ(contender.solver.nfe(), 6);
    EXPECT_TRUE(names.insert(contender.name).second) << contender.name;
    methods.insert(SolverName::parse(contender.name).method);
  }
  // Euler and DDIM are one method on this path.
  EXPECT_EQ(methods.count("euler") + methods.count("ddim"), 1u);
  EXPECT_EQ(methods.count("dpm++2m"), 1u);
  EXPECT_GT(list.size(), 100u);
  for (const auto& grid : automatic_grids(6, *fm.schedule, 0.5)) {
    EXPECT_EQ(names.count("dpm++3m/" + grid), 1u) << grid;
  }
}

// What is found by looking at few pairs is hardly worse than what looking at all would find.
TEST(BestOfCatalogue, FindsOneOfTheBest) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule()}) {
    const ModelPtr model =
        mixture_model(testing::small_mixture(24, 5), schedule, Prediction::noise);
    const FieldDescription description = {Prediction::noise, schedule, {}};
    PairSource source;
    source.count = 24;
    source.tolerances = {1e-6, 1e-6};
    const Pairs pairs = make_pairs(model, source);
    double done = 0;
    const NamedSolver best =
        best_of_catalogue(model, 8, description, pairs, 64, [&](double f) { done = f; });
    EXPECT_NEAR(done, 1, 1e-9);
    const VelocityField field(model);
    const auto psnr = [&](const NsSolver& solver) {
      const double decibels = mean_psnr(sample(solver, field, pairs.x0), pairs.x1);
      return std::isnan(decibels) ? -1000 : decibels;
    };
    double most = -1000;
    for (const auto& contender : catalogue_contenders(8, description, 0.5)) {
      try {
        most = std::max(most, psnr(contender.solver));
      } catch (const Error&) {
        continue;  // one that diverges
      }
    }
    EXPECT_GT(psnr(best.solver), most - 1) << best.name;
  }
}

}  // namespace
}  // namespace bespoke
