#include "bespoke/distill/shared_objective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"
#include "plain_problem.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using testing::PlainProblem;
using testing::ThreadTeam;

// What every member of a team of so many ends with.
std::vector<DistillSummary> distil_together(int members, const DistillOptions& options) {
  std::vector<DistillSummary> summaries(static_cast<size_t>(members));
  ThreadTeam(members).run([&](Team& team) {
    const PlainProblem problem(options.field.schedule);
    const SharedObjective training(problem.training, team), validation(problem.validation, team);
    summaries[static_cast<size_t>(team.rank())] = distill(training, validation, options);
  });
  return summaries;
}

NsSolver named(const std::string& name, int nfe, const SchedulePtr& schedule) {
  FieldDescription field;
  field.schedule = schedule;
  return resolve_solver(SolverName::parse(name), nfe, field).at();
}

void expect_the_same(const DistillOptions& options) {
  const PlainProblem problem(options.field.schedule);
  const DistillSummary one = distill(problem.training, problem.validation, options);
  for (const int members : {2, 3}) {
    for (const DistillSummary& summary : distil_together(members, options)) {
      EXPECT_TRUE(summary.solver == one.solver) << members;
      EXPECT_EQ(summary.validation_psnr, one.validation_psnr);
      EXPECT_EQ(summary.training.forwards, one.training.forwards);
      EXPECT_EQ(summary.screening.forwards, one.screening.forwards);
      EXPECT_EQ(summary.validation.forwards, one.validation.forwards);
      EXPECT_EQ(summary.iterations, one.iterations);
    }
  }
}

TEST(SharedObjective, DistilsToTheSameBits) {
  DistillOptions options;
  options.nfe = 4;
  options.field.schedule = fm_ot_schedule();
  expect_the_same(options);
}

TEST(SharedObjective, MembersMayBeMoreThanSamples) {
  DistillOptions options;
  options.nfe = 3;
  options.field.schedule = vp_schedule();
  options.direct.batch = 2;
  options.iterations = 2;
  expect_the_same(options);
}

TEST(SharedObjective, SumsGradients) {
  const SchedulePtr schedule = fm_ot_schedule();
  const PlainProblem problem(schedule);
  const NsSolver solver = named("midpoint", 4, schedule);
  Counts counts;
  const std::vector<int64_t> subset = {0, 1, 2, 3, 4};
  const LossGradient one = problem.training.loss_gradient(solver, subset, &counts);
  ThreadTeam(2).run([&](Team& team) {
    Counts shared;
    const LossGradient two =
        SharedObjective(problem.training, team).loss_gradient(solver, subset, &shared);
    EXPECT_NEAR(two.loss, one.loss, 1e-12);
    ASSERT_EQ(two.gradient.size(), one.gradient.size());
    for (size_t i = 0; i < one.gradient.size(); ++i) {
      EXPECT_NEAR(two.gradient[i], one.gradient[i], 1e-12);
    }
    EXPECT_EQ(shared.vjps, counts.vjps);
    EXPECT_EQ(shared.forwards, counts.forwards);
  });
}

TEST(SharedObjective, DivergesForAllWhereItDoesForOne) {
  const SchedulePtr schedule = fm_ot_schedule();
  NsSolver wild = named("euler", 2, schedule);
  wild.a.back() = INFINITY;
  ThreadTeam(2).run([&](Team& team) {
    const PlainProblem problem(schedule);
    Counts counts;
    // The second member has no sample, and must not wait for ever.
    EXPECT_THROW(SharedObjective(problem.training, team).log_errors(wild, {0}, &counts), Error);
  });
}

}  // namespace
}  // namespace bespoke
