// Teams deal samples to their members, and find what one process finds.

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"
#include "plain_problem.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using testing::PlainProblem;
using testing::PlainSamplesOptions;
using testing::ThreadTeam;

PlainSamplesOptions shared_by(Team& team, bool joins_runs = false) {
  PlainSamplesOptions options;
  options.samples.team = &team;
  options.samples.joins_runs = joins_runs;
  return options;
}

// What every member of a team of so many ends with.
std::vector<DistillSummary> distil_together(int members, const DistillOptions& options,
                                            bool joins_runs) {
  std::vector<DistillSummary> summaries(static_cast<size_t>(members));
  ThreadTeam(members).run([&](Team& team) {
    const PlainProblem problem(options.field.schedule, shared_by(team, joins_runs));
    summaries[static_cast<size_t>(team.rank())] =
        distill(problem.training, problem.validation, options);
  });
  return summaries;
}

void expect_the_same(const DistillOptions& options, bool joins_runs = false) {
  const PlainProblem problem(options.field.schedule, shared_by(alone(), joins_runs));
  const DistillSummary one = distill(problem.training, problem.validation, options);
  for (const int members : {2, 3}) {
    for (const DistillSummary& summary : distil_together(members, options, joins_runs)) {
      EXPECT_TRUE(summary.solver == one.solver) << members;
      EXPECT_EQ(summary.validation_psnr, one.validation_psnr);
      EXPECT_EQ(summary.training.forwards, one.training.forwards);
      EXPECT_EQ(summary.screening.forwards, one.screening.forwards);
      EXPECT_EQ(summary.validation.forwards, one.validation.forwards);
      EXPECT_EQ(summary.iterations, one.iterations);
    }
  }
}

DistillOptions automatic(int nfe, const SchedulePtr& schedule) {
  DistillOptions options;
  options.nfe = nfe;
  options.field.schedule = schedule;
  return options;
}

TEST(SharedSamples, AreDistilledToTheSameBits) { expect_the_same(automatic(4, fm_ot_schedule())); }

// Also where members join runs: each its own part of them.
TEST(SharedSamples, MayJoinTheirRuns) { expect_the_same(automatic(4, fm_ot_schedule()), true); }

TEST(SharedSamples, MayBeFewerThanMembers) {
  DistillOptions options = automatic(3, vp_schedule());
  options.direct.batch = 2;
  options.iterations = 2;
  expect_the_same(options);
  expect_the_same(options, true);
}

TEST(SharedSamples, DivergeForAllWhereTheyDoForOne) {
  NsSolver wild = make_solver("euler", {2, fm_ot_schedule()});
  wild.a.back() = INFINITY;
  ThreadTeam(2).run([&](Team& team) {
    const PlainProblem problem(fm_ot_schedule(), shared_by(team));
    Counts counts;
    // The second member has no sample, and must not wait for ever.
    EXPECT_THROW(problem.training.log_errors(wild, {0}, &counts), Error);
  });
}

// Each member draws its share, and all have all of them.
TEST(SharedReference, IsThatOfOneProcess) {
  const SchedulePtr schedule = vp_schedule();
  const auto mixture = testing::plain_mixture();
  const auto noise = testing::starting_noise(*schedule, 7, mixture.dimension);
  const auto start = Array::of(PlainArray{noise.values, 7});
  ReferenceOptions options;
  options.record = 5;
  const auto draw = [&](Team& team) {
    const auto field = plain_field(testing::mixture_function(mixture, schedule, Prediction::noise),
                                   Prediction::noise, schedule);
    return draw_reference(field, plain_arrays(), start, {0, 1, 2, 3, 4, 5, 6}, options, team);
  };
  const Reference one = draw(alone());
  ThreadTeam(3).run([&](Team& team) {
    const Reference all = draw(team);
    EXPECT_EQ(all.x.as<PlainArray>().values, one.x.as<PlainArray>().values);
    EXPECT_EQ(all.evaluations, one.evaluations);
    ASSERT_EQ(all.trajectories.count(), 5);
    EXPECT_EQ(all.trajectories.state_at(0.3, {4, 1}).as<PlainArray>().values,
              one.trajectories.state_at(0.3, {4, 1}).as<PlainArray>().values);
  });
}

}  // namespace
}  // namespace bespoke
