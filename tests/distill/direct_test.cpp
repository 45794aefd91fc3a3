// Gauss-Newton by differences on a problem in closed form.

#include "bespoke/distill/direct.h"

#include <gtest/gtest.h>

#include "bespoke/distill/distill.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::PlainProblem;

DistillOptions direct(int nfe, const SchedulePtr& schedule) {
  DistillOptions options;
  options.nfe = nfe;
  options.field.schedule = schedule;
  return options;
}

TEST(Direct, GainsManyDecibelsOverTheFitWithoutGradients) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule()}) {
    const PlainProblem problem(schedule);
    DistillOptions options = direct(4, schedule);
    const DistillSummary summary = distill(problem.training, problem.validation, options);
    EXPECT_EQ(summary.start.substr(0, 4), "fit/");
    EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 5) << summary.brief_report();
    EXPECT_EQ(summary.training.vjps, 0);
    options.method = Method::fit;
    const DistillSummary fit = distill(problem.training, problem.validation, options);
    EXPECT_EQ(fit.validation_psnr, summary.initial_psnr);
    EXPECT_EQ(fit.training.forwards, 0);
  }
}

TEST(Direct, GoesOnFromAStoredStateToTheSameBits) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = direct(4, fm_ot_schedule());
  options.iterations = 4;
  std::vector<std::string> states;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    states.push_back(to_json_text(state));
    return Verdict::go_on;
  };
  const DistillSummary whole = distill(problem.training, problem.validation, options);
  options.on_iteration = nullptr;
  for (const size_t at : {size_t{0}, size_t{2}}) {
    const DistillSummary resumed = distill(problem.training, problem.validation, options,
                                           parse_distill_state(states[at], "state"));
    EXPECT_TRUE(resumed.solver == whole.solver);
    EXPECT_EQ(resumed.training.forwards, whole.training.forwards);
  }
}

TEST(Direct, ImprovesScaleTimeSolversToo) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = direct(4, fm_ot_schedule());
  options.family = bst_family(ScaleTimeBase::rk2, 4);
  const DistillSummary summary = distill(problem.training, problem.validation, options);
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 3) << summary.brief_report();
}

TEST(Direct, CountsWhatItCosts) {
  const NsSolver solver = make_solver("euler", {8, fm_ot_schedule(), "uniform-t:start=0.1"});
  // Of a sample: the run, 112 for coefficients, twice 36 for times, 8 for the start scale.
  const auto changes = jacobian_changes(solver, {});
  EXPECT_EQ(evaluations_of(changes, 8), 8 + 112 + 72 + 8);
  const PlainProblem problem(fm_ot_schedule());
  Counts counts;
  problem.training.linearise(solver, {0, 1, 2}, changes, &counts);
  EXPECT_EQ(counts.forwards, 3 * evaluations_of(changes, 8));
}

}  // namespace
}  // namespace bespoke
