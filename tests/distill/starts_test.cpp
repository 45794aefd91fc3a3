#include "bespoke/distill/starts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/spec.h"
#include "bespoke/solver/grid.h"

namespace bespoke {
namespace {

using Names = std::vector<std::string>;

struct Range {
  double from, to;
};

Range range_of(const std::string& grid) {
  const auto spec = detail::Spec::parse(grid);
  EXPECT_EQ(spec.name, "lambda-range") << grid;
  const double missing = std::nan("");
  return {spec.number("from", missing), spec.number("to", missing)};
}

TEST(Starts, GridsAreUniformTimeAndFourRangesOfLogSnr) {
  EXPECT_EQ(
      automatic_grids(8, *fm_ot_schedule(), 0.5),
      (Names{"uniform-t", "lambda-range:from=-4.30,to=4.50", "lambda-range:from=-3.90,to=4.50",
             "lambda-range:from=-3.50,to=4.50", "lambda-range:from=-3.10,to=4.50"}));
}

// By three quarters for every doubling: there are evaluations to spend on what is seen early.
TEST(Starts, RangesBeginEarlierWithMoreEvaluations) {
  const Names few = automatic_grids(4, *fm_ot_schedule(), 0.5);
  const Names many = automatic_grids(16, *fm_ot_schedule(), 0.5);
  ASSERT_EQ(few.size(), 5u);
  ASSERT_EQ(many.size(), 5u);
  for (size_t i = 1; i < few.size(); ++i) {
    EXPECT_NEAR(range_of(many[i]).from, range_of(few[i]).from - 1.5, 0.011);
    EXPECT_EQ(range_of(many[i]).to, range_of(few[i]).to);
  }
}

// Data of twice the deviation shows at half the signal.
TEST(Starts, RangesMoveWithTheDeviationOfTheData) {
  const Names narrow = automatic_grids(8, *fm_ot_schedule(), 0.5);
  const Names wide = automatic_grids(8, *fm_ot_schedule(), 1);
  for (size_t i = 1; i < narrow.size(); ++i) {
    EXPECT_NEAR(range_of(wide[i]).from, range_of(narrow[i]).from - std::log(2), 0.011);
    EXPECT_NEAR(range_of(wide[i]).to, range_of(narrow[i]).to - std::log(2), 0.011);
  }
}

// A path that starts with some signal has nothing earlier; ranges that become the same are one.
TEST(Starts, RangesBeginNoEarlierThanTheSchedule) {
  const SchedulePtr schedule = make_schedule("ddpm-scaled-linear");
  const double least = schedule->lambda(0);  // -2.68
  const Names grids = automatic_grids(8, *schedule, 0.5);
  ASSERT_EQ(grids.size(), 2u);
  EXPECT_NEAR(range_of(grids[1]).from, least, 0.005);
  const Names later = automatic_grids(4, *schedule, 0.5);  // -3.55 ... -2.35
  ASSERT_EQ(later.size(), 3u);
  EXPECT_NEAR(range_of(later[1]).from, least, 0.005);
  EXPECT_NEAR(range_of(later[2]).from, -2.35, 1e-9);
}

TEST(Starts, EveryGridCanBeBuiltOnEverySchedule) {
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    for (const double deviation : {0.05, 0.5, 4.0}) {
      for (const int nfe : {1, 4, 20}) {
        for (const auto& grid : automatic_grids(nfe, *schedule, deviation)) {
          EXPECT_NO_THROW(make_grid(grid, nfe, *schedule)) << grid << " on " << entry.name;
        }
      }
    }
  }
}

TEST(Starts, CandidatesAreThoseThatCanSpendTheEvaluations) {
  EXPECT_EQ(start_candidates("uniform-t", 4),
            (Names{"midpoint/uniform-t", "ab2/uniform-t", "dpm++2m/uniform-t",
                   "unipc3-bh2/uniform-t", "deis-t-ab3/uniform-t", "ipndm/uniform-t"}));
  const Names odd = start_candidates("lambda-range:from=-3,to=4", 5);
  ASSERT_EQ(odd.size(), 5u);  // without midpoint
  EXPECT_EQ(odd[0], "ab2/lambda-range:from=-3,to=4");
  const FieldDescription field{Prediction::noise, vp_schedule(), 0.0};
  for (const auto& name : odd) {
    EXPECT_EQ(resolve_solver(SolverName::parse(name), 5, field).at().nfe(), 5) << name;
  }
}

TEST(Starts, PlainOnesAreInTheFamilyAndInStraightCoordinates) {
  const SchedulePtr fm = fm_ot_schedule(), vp = vp_schedule();
  EXPECT_EQ(plain_starts(*bns_family(4), *fm), (Names{"midpoint", "euler"}));
  EXPECT_EQ(plain_starts(*bns_family(5), *fm), (Names{"euler"}));
  EXPECT_EQ(plain_starts(*bns_family(4), *vp), (Names{"midpoint@fm-ot", "euler@fm-ot"}));
  EXPECT_EQ(plain_starts(*bst_family(ScaleTimeBase::rk1, 4), *vp), (Names{"euler@fm-ot"}));
  EXPECT_EQ(plain_starts(*bst_family(ScaleTimeBase::rk2, 4), *fm), (Names{"midpoint"}));
}

// Samples from half as large as images of [-1, 1] to as large as latents need no shift.
TEST(Starts, LikelyRangesFollowSamplesThatAreMuchSmallerOrLarger) {
  const auto ranges = [](double deviation) {
    return likely_ranges(8, *fm_ot_schedule(), deviation);
  };
  EXPECT_EQ(to_string(ranges(0.5).front()), "lambda-range:from=-3.80,to=4.00");
  EXPECT_EQ(to_string(ranges(0.3).front()), to_string(ranges(0.5).front()));
  EXPECT_EQ(to_string(ranges(1).front()), "lambda-range:from=-3.00,to=2.80,bend=-0.200");
  EXPECT_EQ(to_string(ranges(1).back()), to_string(ranges(0.5).front()));
  const double shift = std::log(0.5 / 0.005) - 0.7;
  EXPECT_NEAR(ranges(0.005).front().from, -3.8 + shift, 1e-12);
  EXPECT_NEAR(ranges(50).back().to, 4.0 - shift, 1e-12);
}

}  // namespace
}  // namespace bespoke
