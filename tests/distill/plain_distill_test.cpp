// The whole distillation on plain arrays, without any library of tensors.

#include <gtest/gtest.h>

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::PlainProblem;

DistillOptions automatic(int nfe, const SchedulePtr& schedule) {
  DistillOptions options;
  options.nfe = nfe;
  options.field.schedule = schedule;
  return options;
}

TEST(PlainDistill, GainsMoreFromMoreEvaluations) {
  const SchedulePtr schedule = fm_ot_schedule();
  const PlainProblem problem(schedule);
  const DistillSummary four = distill(problem.training, problem.validation, automatic(4, schedule));
  const DistillSummary six = distill(problem.training, problem.validation, automatic(6, schedule));
  EXPECT_GT(six.validation_psnr, four.validation_psnr + 3);
}

TEST(PlainDistill, OfSeveralStartsTheBestAfterOneIterationGoesOn) {
  const SchedulePtr schedule = fm_ot_schedule();
  const PlainProblem problem(schedule);
  DistillOptions options = automatic(4, schedule);
  const std::string grid = "/lambda-range:from=-2.5,to=4";
  for (const std::string name : {"euler", "dpm++2m"}) {
    options.starts.push_back(
        {name, resolve_solver(SolverName::parse(name + grid), 4, options.field).at()});
  }
  DistillState last;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    last = state;
    return Verdict::go_on;
  };
  const DistillSummary summary = distill(problem.training, problem.validation, options);
  ASSERT_EQ(last.starts.size(), 2u);
  const size_t won = static_cast<size_t>(last.chosen);
  EXPECT_EQ(last.starts[1 - won].iteration, 1);
  EXPECT_EQ(summary.start, last.starts[won].name);
  EXPECT_GT(summary.validation_psnr, last.starts[1 - won].best_psnr);
}

// Without trajectories the start is the nearest of the catalogue, and iterations gain on it.
TEST(PlainDistill, NeedsNoTrajectories) {
  const SchedulePtr schedule = vp_schedule();
  testing::PlainSamplesOptions unknown;
  unknown.trajectories = 0;
  const PlainProblem problem(schedule, unknown);
  const DistillSummary summary =
      distill(problem.training, problem.validation, automatic(4, schedule));
  EXPECT_NE(summary.start.substr(0, 4), "fit/");
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 10) << summary.brief_report();
}

TEST(PlainDistill, AdamAndScaleTimeFamiliesStartFromPlainSolvers) {
  const SchedulePtr schedule = vp_schedule();
  const PlainProblem problem(schedule);
  DistillOptions options = automatic(4, schedule);
  options.family = bst_family(ScaleTimeBase::rk2, 4);
  const DistillSummary scale_time = distill(problem.training, problem.validation, options);
  EXPECT_EQ(scale_time.start, "midpoint@fm-ot");
  EXPECT_GT(scale_time.validation_psnr, scale_time.initial_psnr + 3);
  options = automatic(4, schedule);
  options.method = Method::adam;
  options.adam.rate = 5e-3;
  options.adam.batch = 16;
  options.iterations = 60;
  const testing::DifferenceGradients gradients(problem.training);
  const DistillSummary adam =
      distill(problem.training, problem.validation, options, {}, &gradients);
  EXPECT_EQ(adam.start.substr(adam.start.find('@')), "@fm-ot");
  EXPECT_GT(adam.validation_psnr, adam.initial_psnr + 1);
}

TEST(PlainDistill, FamiliesThatFreeLessBeginWithWhatTheyHoldAndReachLess) {
  const SchedulePtr schedule = vp_schedule();
  const PlainProblem problem(schedule);
  const auto reached = [&](const FamilyPtr& family) {
    DistillOptions options = automatic(4, schedule);
    options.family = family;
    const DistillSummary summary = distill(problem.training, problem.validation, options);
    EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 1) << family->name();
    return summary.validation_psnr;
  };
  const double times = reached(times_family("dpm++2m", 4, schedule));
  const double one = reached(history_family(1, 4)), two = reached(history_family(2, 4));
  EXPECT_GT(two, one + 3);
  EXPECT_GT(two, times + 3);
}

TEST(PlainDistill, AdamSaysThatItNeedsGradients) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = automatic(4, fm_ot_schedule());
  options.method = Method::adam;
  EXPECT_THROW(distill(problem.training, problem.validation, options), Error);
}

// Calls that are left when one fit gains nothing more are spent on the others, and more never give
// less.
TEST(PlainDistill, GoesOnFromOtherFitsWhileCallsAreLeft) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = automatic(4, fm_ot_schedule());
  options.iterations = 24;
  const DistillSummary one = distill(problem.training, problem.validation, options);
  ASSERT_EQ(one.ending, Ending::converged) << one.brief_report();
  options.iterations = 0;
  options.most_calls = 4 * one.calls();
  std::vector<DistillState> states;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    states.push_back(state);
    return Verdict::go_on;
  };
  const DistillSummary several = distill(problem.training, problem.validation, options);
  const auto iterated = [](const StartState& start) { return start.iteration > 0; };
  const auto& starts = states.back().starts;
  EXPECT_GT(std::count_if(starts.begin(), starts.end(), iterated), 1);
  EXPECT_GE(several.validation_psnr, one.validation_psnr);
  EXPECT_GT(several.calls(), one.calls());
  EXPECT_LE(several.calls(), options.most_calls);

  // A run that was stopped in the second of them goes on as if it had not been.
  const auto second = std::find_if(states.begin(), states.end(),
                                   [](const DistillState& state) { return state.chosen > 0; });
  ASSERT_NE(second, states.end());
  options.on_iteration = nullptr;
  const DistillState stored = parse_distill_state(to_json_text(*second), "stored");
  const DistillSummary resumed = distill(problem.training, problem.validation, options, stored);
  EXPECT_EQ(coefficients_of(resumed.solver), coefficients_of(several.solver));
  EXPECT_EQ(resumed.calls(), several.calls());
}

// Where measurements count, they and all else keep to the budget together.
TEST(PlainDistill, SpendsMeasurementsFromTheSameBudgetWhereAsked) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = automatic(4, fm_ot_schedule());
  for (const int64_t budget : {6000, 12000}) {
    options.most_calls = budget;
    const DistillSummary summary = distill(problem.training, problem.validation, options);
    const int64_t spent =
        summary.screening.forwards + summary.training.forwards + summary.validation.forwards;
    EXPECT_LE(spent, budget) << summary.brief_report();
    EXPECT_GT(spent, budget / 2) << summary.brief_report();
  }
}

}  // namespace
}  // namespace bespoke
