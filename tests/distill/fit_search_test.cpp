#include "bespoke/distill/fit_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bespoke/distill/starts.h"
#include "bespoke/solver/grid.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::plain_samples;

double fitted_loss(const Samples& samples, const std::string& grid, int nfe) {
  Counts counts;
  return fit_solver(samples, first_samples(samples, 8), make_grid(grid, nfe, *vp_schedule()), {},
                    &counts)
      .loss;
}

TEST(FitSearch, FindsTimesNoWorseThanAnyItBeganWith) {
  const Samples samples = plain_samples(testing::plain_mixture(), vp_schedule(), 24, 1);
  Counts few, more;
  FitSearchOptions options;
  options.samples = 8;
  options.rounds = 0;
  const FamilyPtr family = bns_family(4);
  const NamedSolver begun = search_fit(samples, *family, *vp_schedule(), options, &few);
  options.rounds = 2;
  const NamedSolver found = search_fit(samples, *family, *vp_schedule(), options, &more);
  const auto loss = [&](const NamedSolver& solver) {
    return fitted_loss(samples, solver.name.substr(solver.name.find('/') + 1), 4);
  };
  for (const auto& grid : {std::string("uniform-t"), begun.name.substr(4)}) {
    EXPECT_LE(loss(found), fitted_loss(samples, grid, 4));
  }
  EXPECT_LT(loss(found), loss(begun) - 0.1);
  // Every set of times costs n forwards a sample; at most six a round are tried.
  EXPECT_EQ(few.forwards % (8 * 4), 0);
  EXPECT_LE(more.forwards, few.forwards + 2 * 6 * 8 * 4);
}

// Samples so small, as they say, that every range of log-SNR begins where they are nearly done.
TEST(FitSearch, MovesTimesEvenInTWhereNoRangeIsBetter) {
  testing::PlainSamplesOptions tiny;
  tiny.x1_factor = 2e-3;
  const Samples samples = plain_samples(testing::plain_mixture(), vp_schedule(), 24, 1, tiny);
  Counts counts;
  FitSearchOptions options;
  options.samples = 8;
  options.rounds = 0;
  const FamilyPtr family = bns_family(4);
  EXPECT_EQ(search_fit(samples, *family, *vp_schedule(), options, &counts).name, "fit/uniform-t");
  options.rounds = 2;
  const NamedSolver found = search_fit(samples, *family, *vp_schedule(), options, &counts);
  EXPECT_EQ(found.name.rfind("fit/shift:", 0), 0u) << found.name;
  EXPECT_LT(fitted_loss(samples, found.name.substr(4), 4),
            fitted_loss(samples, "uniform-t", 4) - 0.1);
}

TEST(FitSearch, TriesTheLikelyRangesAloneOnFewSamples) {
  const Samples samples = plain_samples(testing::plain_mixture(), fm_ot_schedule(), 24, 1);
  Counts counts;
  FitSearchOptions options;
  options.begins_with_likely_ranges = true;
  options.samples = 3;
  const FoundFit found = search_fit(samples, *bns_family(4), *fm_ot_schedule(), options, &counts);
  EXPECT_EQ(counts.forwards, 3 * 3 * 4);
  ASSERT_EQ(found.log_errors.size(), 3u);
  EXPECT_NEAR((found.log_errors[0] + found.log_errors[1] + found.log_errors[2]) / 3, found.loss,
              1e-12);
  // Four tell more times apart.
  options.samples = 4;
  counts = {};
  search_fit(samples, *bns_family(4), *fm_ot_schedule(), options, &counts);
  EXPECT_GT(counts.forwards, 4 * 6 * 4);
}

TEST(FitSearch, KeepsToTheFamilysConstraints) {
  const Samples samples = plain_samples(testing::plain_mixture(), vp_schedule(), 24, 1);
  Counts counts;
  const FamilyPtr family = bns_family(5, {true, {TimeRounding::Kind::integer, 100}});
  FitSearchOptions options;
  options.samples = 8;
  options.rounds = 1;
  const NamedSolver found = search_fit(samples, *family, *vp_schedule(), options, &counts);
  EXPECT_EQ(found.solver.start_scale, 1);
  for (const double t : found.solver.times) EXPECT_NEAR(100 * t, std::round(100 * t), 1e-9);
  const NsSolver kept = family->solver(family->parameters(found.solver));
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(kept.times[i], found.solver.times[i], 1e-12);
  EXPECT_EQ(kept.b, found.solver.b);
}

TEST(FitSearch, RanksTheFitsItTried) {
  const Samples samples = plain_samples(testing::plain_mixture(), vp_schedule(), 24, 1);
  Counts counts;
  FitSearchOptions options;
  options.samples = 8;
  const auto fits = search_fits(samples, *bns_family(4), *vp_schedule(), options, 3, &counts);
  ASSERT_EQ(fits.size(), 3u);
  std::vector<double> losses;
  for (const NamedSolver& fit : fits) losses.push_back(fitted_loss(samples, fit.name.substr(4), 4));
  EXPECT_TRUE(std::is_sorted(losses.begin(), losses.end()));
  EXPECT_LT(losses.front(), losses.back());
}

TEST(FitSearch, KnowsOnlySomeTrajectories) {
  testing::PlainSamplesOptions nine;
  nine.trajectories = 9;
  const Samples samples = plain_samples(testing::plain_mixture(), vp_schedule(), 24, 1, nine);
  Counts counts;
  FitSearchOptions options;
  options.rounds = 0;
  search_fit(samples, *bns_family(4), *vp_schedule(), options, &counts);
  EXPECT_EQ(counts.forwards % (9 * 4), 0);
}

}  // namespace
}  // namespace bespoke
