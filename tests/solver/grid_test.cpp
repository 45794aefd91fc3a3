#include "bespoke/solver/grid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/solver/lowering.h"

namespace bespoke {
namespace {

std::vector<SchedulePtr> all_schedules() {
  std::vector<SchedulePtr> list;
  for (const auto& entry : schedule_registry()) list.push_back(make_schedule(entry.name));
  return list;
}

TEST(Grid, EveryGridRisesOnEverySchedule) {
  for (const auto& schedule : all_schedules()) {
    for (const auto& entry : grid_registry()) {
      if (entry.kind == GridKind::numbers) continue;
      if (entry.name == "optimal-steps" && !is_flow(*schedule)) continue;  // has more noise
      const bool published = entry.kind == GridKind::published;
      if (published && schedule->snr(0) > 1 / 14.) continue;  // the grid begins with more
      for (const int steps : {1, 2, 7, 50}) {
        const auto grid = make_grid(entry.name, steps, *schedule);
        ASSERT_EQ(grid.size(), static_cast<size_t>(steps) + 1);
        EXPECT_EQ(grid.back(), 1);
        EXPECT_GE(grid.front(), 0);
        for (size_t i = 1; i < grid.size(); ++i) {
          EXPECT_GT(grid[i], grid[i - 1]) << entry.name << " on " << schedule->name();
        }
      }
    }
  }
}

// A path that ends before the data, or with a step to it, has no nodes beyond its last time.
TEST(Grid, NoGridGoesBeyondTheLastTime) {
  for (const std::string name : {"ve:sigma_min=0.05", "vp:end=0.98", "ve-power:end=0.999"}) {
    for (const bool denoise : {false, true}) {
      const SchedulePtr path = make_schedule(name + (denoise ? ",denoise=1" : ""));
      for (const char* grid : {"uniform-lambda", "lambda-range", "karras"}) {
        for (const int steps : {1, 2, 7}) {
          const auto times = make_grid(grid, steps, *path);
          ASSERT_EQ(times.size(), static_cast<size_t>(steps) + 1);
          EXPECT_EQ(times.back(), 1);
          EXPECT_LE(times[times.size() - 2], path->last_time() + 1e-12) << grid << " on " << name;
        }
      }
    }
  }
  // All of Karras's noise levels where the path ends at the least of them.
  const SchedulePtr ve = ve_schedule(0.01, 50);
  const auto times = make_grid("karras", 4, *ve);
  for (int i = 0; i <= 4; ++i) {
    const double root =
        std::pow(50, 1 / 7.) + i / 4. * (std::pow(0.01, 1 / 7.) - std::pow(50, 1 / 7.));
    EXPECT_NEAR(ve->sigma(times[static_cast<size_t>(i)]), std::pow(root, 7), 1e-9);
  }
}

TEST(Grid, UniformLambdaIsUniformInLambda) {
  const SchedulePtr vp = vp_schedule();
  const auto grid = make_grid("uniform-lambda:start=0.1,end=0.9", 10, *vp);
  const double step = (vp->lambda(0.9) - vp->lambda(0.1)) / 10;
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(vp->lambda(grid[i + 1]) - vp->lambda(grid[i]), step, 1e-10);
  }
}

TEST(Grid, LambdaRangeIsUniformBetweenItsEndsOnEveryPath) {
  for (const auto& schedule : all_schedules()) {
    const auto grid = make_grid("lambda-range:from=-2,to=4", 6, *schedule);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(schedule->lambda(grid[i]), -2 + static_cast<double>(i), 1e-9) << schedule->name();
    }
    EXPECT_EQ(grid.back(), 1);
  }
  // A schedule with less noise starts at its own end.
  EXPECT_EQ(make_grid("lambda-range:from=-9", 7, *vp_schedule())[0], 0);
  for (const std::string nonsense : {"from=5", "to=400", "from=-2000"}) {
    EXPECT_THROW(make_grid("lambda-range:" + nonsense, 7, *fm_ot_schedule()), Error) << nonsense;
  }
}

TEST(Grid, GridsStartNoEarlierThanTheyMust) {
  const SchedulePtr fm = fm_ot_schedule();
  for (const auto& name : {"uniform-t", "uniform-lambda", "lambda-range", "quadratic", "karras"}) {
    EXPECT_NEAR(make_grid(grid_from(name, 0.2, *fm), 6, *fm).front(), 0.2, 1e-12) << name;
  }
  // What says itself where it starts, or starts later, is left alone.
  EXPECT_EQ(grid_from("lambda-range:from=-9", 0.2, *fm), "lambda-range:from=-9");
  EXPECT_EQ(make_grid(grid_from("lambda-range", 1e-3, *fm), 6, *fm),
            make_grid("lambda-range", 6, *fm));
}

TEST(Grid, KarrasFollowsItsFormulaAndEndsAtZeroNoise) {
  const SchedulePtr fm = fm_ot_schedule();
  const auto grid = make_grid("karras", 5, *fm);
  EXPECT_NEAR(grid[0], 1 / 81., 1e-15);
  for (int i = 0; i < 5; ++i) {
    const double sigma = std::pow(
        std::pow(80, 1 / 7.) + i / 4. * (std::pow(0.002, 1 / 7.) - std::pow(80, 1 / 7.)), 7);
    EXPECT_NEAR(1 / fm->snr(grid[static_cast<size_t>(i)]), sigma, 1e-9);
  }
  // A schedule with less noise starts at its own end.
  EXPECT_EQ(make_grid("karras", 5, *make_schedule("ddpm-scaled-linear"))[0], 0);
}

TEST(Grid, ShiftFollowsItsFormula) {
  const auto grid = make_grid("shift:shift=3", 4, *fm_ot_schedule());
  for (int i = 0; i <= 4; ++i) {
    const double sigma = 1 - i / 4.;
    EXPECT_NEAR(1 - grid[static_cast<size_t>(i)], 3 * sigma / (1 + 2 * sigma), 1e-14);
  }
}

TEST(Grid, QuadraticIsDenseNearTheData) {
  const auto grid = make_grid("quadratic", 4, *fm_ot_schedule());
  EXPECT_NEAR(grid[1], 1 - 0.75 * 0.75, 1e-14);
  EXPECT_NEAR(grid[3], 1 - 0.0625, 1e-14);
}

TEST(Grid, MayStartAfterZeroAndEndBeforeOne) {
  for (const auto& name : {"uniform-t", "uniform-lambda", "quadratic", "shift"}) {
    const auto grid = make_grid(std::string(name) + ":start=0.001,end=0.999", 6, *vp_schedule());
    EXPECT_EQ(grid.front(), 0.001);
    EXPECT_EQ(grid.back(), 0.999);
  }
  EXPECT_EQ(make_grid("custom:0.001,0.3,0.98", 2, *fm_ot_schedule()),
            (std::vector<double>{0.001, 0.3, 0.98}));
}

TEST(Grid, PublishedListsAreOfTheNoiseLevelsPublished) {
  const SchedulePtr sd = make_schedule("ddpm-scaled-linear");
  const auto ays = make_grid("ays", 10, *sd);
  EXPECT_EQ(ays.front(), 0);  // its largest level is the schedule's
  EXPECT_NEAR(tool_sigma(*sd, ays[5]), 1.3943805092, 1e-9);
  EXPECT_NEAR(tool_sigma(*sd, ays[9]), 0.1515232662, 1e-9);
  EXPECT_EQ(ays.back(), 1);
  // Between them, linear in the logarithm: step 1 of 4 is 2.5 of 10.
  EXPECT_NEAR(tool_sigma(*sd, make_grid("ays:model=sdxl", 4, *sd)[1]),
              std::sqrt(3.7681790315 * 2.1811480769), 1e-9);
  EXPECT_NEAR(tool_sigma(*sd, make_grid("gits", 4, *sd)[3]), 0.36617002, 1e-9);
  EXPECT_NEAR(make_grid("optimal-steps", 10, *fm_ot_schedule())[7], 1 - 0.8287, 1e-12);
  EXPECT_EQ(make_grid("optimal-steps:model=wan", 20, *fm_ot_schedule())[0], 0);
  EXPECT_EQ(make_grid("ays:model=svd", 10, *edm_schedule(700))[0], 0);
}

TEST(Grid, TakesSigmasAndTimestepsAsOtherToolsCountThem) {
  const SchedulePtr sd = make_schedule("ddpm-scaled-linear"), fm = fm_ot_schedule();
  const auto by_sigma = make_grid("sigmas:14.6146412293,1.5,0", 2, *sd);
  EXPECT_EQ(by_sigma, make_grid("sigmas:14.6146412293,1.5", 2, *sd));
  EXPECT_NEAR(sd->sigma(by_sigma[1]) / sd->alpha(by_sigma[1]), 1.5, 1e-12);
  const auto by_flow = make_grid("sigmas:1,0.3", 2, *fm);
  EXPECT_EQ(by_flow.front(), 0);
  EXPECT_NEAR(by_flow[1], 0.7, 1e-15);
  EXPECT_EQ(make_grid("timesteps:999,499", 2, *sd), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(make_grid("timesteps:1000,500", 2, *fm), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(make_grid("timesteps:1000,500,0", 2, *fm), (std::vector<double>{0, 0.5, 1}));
}

TEST(Grid, RefusesWhatMakesNoSense) {
  const SchedulePtr fm = fm_ot_schedule();
  for (const auto& text :
       {"uniform",           "uniform-t:end=2",     "uniform-t:start=0.5,end=0.5",
        "karras:rho=0",      "karras:sigma_min=90", "shift:shift=-1",
        "karras:end=0.9",    "custom:0,1",          "custom:0,0.7,0.5",
        "custom:0,0.5,1.5",  "custom:0,x,1",        "custom:a=1",
        "ays:model=sd3",     "gits:model=sd15",     "optimal-steps:models=flux",
        "sigmas:1,0.5,0.2",  "sigmas:0.2,0.5",      "sigmas:1.5,0.5",
        "sigmas:0.5,-1",     "sigmas:a=1",          "sigmas:0.5,x",
        "timesteps:500,999", "timesteps:1001,3",    "sigmas",
        "timesteps:999"}) {
    EXPECT_THROW(make_grid(text, 2, *fm), Error) << text;
  }
}

}  // namespace
}  // namespace bespoke
