#include "bespoke/distill/best_of_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/distill/starts.h"
#include "plain_problem.h"
#include "thread_team.h"

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

// What is found by looking at few samples is hardly worse than what looking at all would find, and
// a team finds the same, as do samples in other coordinates.
TEST(BestOfCatalogue, FindsOneOfTheBest) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule()}) {
    const FieldDescription description = {Prediction::velocity, schedule, {}};
    testing::PlainSamplesOptions options;
    options.trajectories = 0;
    options.samples.joins_runs = true;
    const Samples samples =
        testing::plain_samples(testing::plain_mixture(), schedule, 24, 5, options);
    double done = 0;
    const NamedSolver best =
        best_of_catalogue(samples, 8, description, [&](double f) { done = f; });
    EXPECT_NEAR(done, 1, 1e-9);
    const auto loss = [&](const NsSolver& solver) {
      Counts counts;
      return detail::mean(samples.log_errors(solver, first_samples(samples), &counts));
    };
    double least = std::numeric_limits<double>::infinity();
    for (const auto& contender : catalogue_contenders(8, description, samples.data_deviation())) {
      try {
        least = std::min(least, loss(contender.solver));
      } catch (const Error&) {
        continue;  // one that diverges
      }
    }
    constexpr double kDecibel = 0.2303;  // in log errors
    EXPECT_LT(loss(best.solver), least + kDecibel) << best.name;
    options.canonical = true;
    const Samples elsewhere =
        testing::plain_samples(testing::plain_mixture(), schedule, 24, 5, options);
    EXPECT_EQ(best_of_catalogue(elsewhere, 8, description, nullptr).name, best.name);
    testing::ThreadTeam(3).run([&](Team& team) {
      EXPECT_EQ(best_of_catalogue(samples, 8, description, nullptr, team).name, best.name);
    });
  }
}

}  // namespace
}  // namespace bespoke
