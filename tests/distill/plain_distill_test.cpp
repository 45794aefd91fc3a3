// The whole distillation on an objective written without any library of tensors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bespoke/distill/distill.h"
#include "bespoke/distill/starts.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::PlainObjective;
using testing::PlainProblem;

DistillOptions automatic(int nfe, const SchedulePtr& schedule) {
  DistillOptions options;
  options.nfe = nfe;
  options.field.schedule = schedule;
  options.method = Method::levenberg_marquardt;
  options.iterations = 24;
  return options;
}

TEST(PlainDistill, GainsManyDecibelsOverTheBestAutomaticStart) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule()}) {
    const PlainProblem problem(schedule);
    DistillOptions options = automatic(4, schedule);
    double best_start = -1000;
    std::vector<std::string> names;
    options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
      names.clear();
      for (const auto& start : state.starts) {
        names.push_back(start.name);
        best_start = std::max(best_start, start.initial_psnr);
      }
      return Verdict::go_on;
    };
    const DistillSummary summary = distill(problem.training, problem.validation, options);
    EXPECT_GT(summary.validation_psnr, best_start + 10) << summary.brief_report();
    EXPECT_GT(summary.training_psnr, best_start + 10) << summary.brief_report();
    EXPECT_NO_THROW(summary.solver.validate());
    EXPECT_EQ(summary.solver.nfe(), 4);
    EXPECT_GT(summary.screening.forwards, 0);
    // One start on each automatic grid.
    const auto grids = automatic_grids(4, *schedule, problem.training.data_deviation());
    ASSERT_EQ(names.size(), grids.size());
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(names[i].substr(names[i].find('/') + 1), grids[i]);
    }
  }
}

TEST(PlainDistill, GainsMoreFromMoreEvaluationsAndFromANeighbour) {
  const SchedulePtr schedule = fm_ot_schedule();
  const PlainProblem problem(schedule);
  DistillOptions options = automatic(4, schedule);
  const DistillSummary four = distill(problem.training, problem.validation, options);
  options = automatic(6, schedule);
  options.neighbour = four.solver;
  std::string last_start;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    last_start = state.starts.back().name;
    return Verdict::go_on;
  };
  const DistillSummary six = distill(problem.training, problem.validation, options);
  EXPECT_EQ(last_start, "4 NFE, padded");
  EXPECT_GT(six.validation_psnr, four.validation_psnr + 3);
}

TEST(PlainDistill, GoesOnFromAStoredStateToTheSameBits) {
  const SchedulePtr schedule = fm_ot_schedule();
  const PlainProblem problem(schedule);
  DistillOptions options = automatic(4, schedule);
  options.iterations = 12;
  std::vector<std::string> states;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    states.push_back(to_json_text(state));
    return Verdict::go_on;
  };
  const DistillSummary whole = distill(problem.training, problem.validation, options);
  options.on_iteration = nullptr;
  // While all starts are on trial, while some are, and after one was chosen.
  for (const size_t at : {size_t{1}, states.size() / 2, states.size() - 2}) {
    const DistillSummary resumed = distill(problem.training, problem.validation, options,
                                           parse_distill_state(states[at], "state"));
    EXPECT_TRUE(resumed.solver == whole.solver) << "after " << at + 1 << " of " << states.size();
    EXPECT_EQ(resumed.validation_psnr, whole.validation_psnr);
    EXPECT_EQ(resumed.start, whole.start);
    EXPECT_EQ(resumed.iterations, whole.iterations);
    EXPECT_EQ(resumed.training.forwards, whole.training.forwards);
    EXPECT_EQ(resumed.ending, whole.ending);
  }
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
  const DistillSummary adam = distill(problem.training, problem.validation, options);
  EXPECT_EQ(adam.start.substr(adam.start.find('@')), "@fm-ot");
  EXPECT_GT(adam.validation_psnr, adam.initial_psnr + 1);
}

// The objective itself: the gradient it reports is that of the loss it reports.
TEST(PlainObjective, IsConsistent) {
  const PlainObjective objective(testing::plain_mixture(), fm_ot_schedule(), 8, 1);
  const NsSolver solver = make_solver("midpoint", {4, fm_ot_schedule(), "uniform-t:start=0.05"});
  const auto subset = first_samples(objective);
  Counts counts;
  const LocalModel model = objective.local_model(solver, subset, {}, &counts);
  double mean = 0;
  for (const double error : objective.log_errors(solver, subset, &counts)) mean += error / 8;
  EXPECT_NEAR(model.loss, mean, 1e-12);
  constexpr double kStep = 1e-5;
  const auto coefficients = coefficients_of(solver);
  for (size_t j = 0; j < coefficients.size(); ++j) {
    const auto loss = [&](double by) {
      auto moved = coefficients;
      moved[j] += by;
      double sum = 0;
      for (const double e : objective.log_errors(solver_of(4, moved), subset, &counts)) sum += e;
      return sum / 8;
    };
    EXPECT_NEAR(model.gradient[j], (loss(kStep) - loss(-kStep)) / (2 * kStep),
                1e-5 * (1 + std::abs(model.gradient[j])))
        << j;
  }
}

}  // namespace
}  // namespace bespoke
