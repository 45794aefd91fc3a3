// Choosing among solvers before any training.

#include "bespoke/distill/screen.h"

#include <gtest/gtest.h>

#include "bespoke/base/mean.h"
#include "problem.h"

namespace bespoke {
namespace {

using detail::mean;

using testing::small_problem;
using testing::start_solver;

TEST(Screening, FindsTheNearestSolverWhereverItStands) {
  const auto problem = small_problem();
  const Samples samples = testing::training_samples(problem);
  Counts counts;
  const NsSolver euler = start_solver("euler", 4), midpoint = start_solver("midpoint", 4);
  EXPECT_EQ(nearest_solver(samples, {euler, midpoint, euler}, 16, &counts, nullptr), 1u);
  EXPECT_EQ(nearest_solver(samples, {midpoint, euler}, 16, &counts, nullptr), 0u);
}

TEST(Screening, LooksPastALastStepThatCanBeMended) {
  const auto problem = small_problem();
  const Samples samples = testing::training_samples(problem);
  Counts counts;
  const NsSolver euler = start_solver("euler", 4);
  NsSolver spoiled = start_solver("midpoint", 4);
  for (auto& value : spoiled.b.back()) value *= 3;
  const auto all = first_samples(samples);
  ASSERT_GT(mean(samples.log_errors(spoiled, all, &counts)),
            mean(samples.log_errors(euler, all, &counts)));
  EXPECT_EQ(nearest_solver(samples, {euler, spoiled}, 96, &counts, nullptr), 1u);
}

TEST(Screening, PassesOverSolversThatDiverge) {
  const auto problem = small_problem();
  const Samples samples = testing::training_samples(problem);
  Counts counts;
  NsSolver broken = start_solver("midpoint", 4);
  for (auto& row : broken.b) {
    for (auto& value : row) value *= 1e200;
  }
  EXPECT_EQ(nearest_solver(samples, {broken, start_solver("euler", 4)}, 16, &counts, nullptr), 1u);
}

TEST(Screening, CostsTheEvaluationsOfThePairsItLooksAt) {
  const auto problem = small_problem();
  const Samples samples = testing::training_samples(problem);
  const std::vector<NsSolver> solvers = {start_solver("euler", 4), start_solver("midpoint", 4)};
  Counts counts;
  std::vector<double> done;
  nearest_solver(samples, solvers, 10, &counts, [&](double f) { done.push_back(f); });
  EXPECT_EQ(counts.forwards, 2 * 10 * 4);
  EXPECT_EQ(counts.vjps, 0);
  EXPECT_EQ(done, (std::vector<double>{0.5, 1}));
  Counts all;
  nearest_solver(samples, solvers, 100000, &all, nullptr);
  EXPECT_EQ(all.forwards, 2 * samples.count() * 4);
}

}  // namespace
}  // namespace bespoke
