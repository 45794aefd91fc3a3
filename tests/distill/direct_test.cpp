// Gauss-Newton by differences on a problem in closed form.

#include "bespoke/distill/direct.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::plain_samples;
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
    EXPECT_EQ(fit.training.forwards, 0);
    EXPECT_LE(fit.screening.forwards, summary.screening.forwards);
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

// The samples of earlier iterations still speak, each for the price of a run.
TEST(Direct, RemembersTheSamplesOfEarlierIterations) {
  const PlainProblem problem(vp_schedule());
  DistillOptions options = direct(6, vp_schedule());
  options.method = Method::direct;
  options.iterations = 8;
  options.direct.batch = 12;
  options.direct.remembered = 24;
  std::vector<size_t> remembered;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    remembered.push_back(state.starts[0].direct.memory.size());
    return Verdict::go_on;
  };
  const double with = distill(problem.training, problem.validation, options).validation_psnr;
  EXPECT_EQ(remembered, (std::vector<size_t>{1, 2, 2, 2, 2, 2, 2, 2}));
  options.direct.remembered = 0;
  const double without = distill(problem.training, problem.validation, options).validation_psnr;
  EXPECT_GT(with, without + 1);
}

// What a state remembers must be of these samples and of this family.
TEST(Direct, RefusesAMemoryOfOtherSamples) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = direct(4, fm_ot_schedule());
  options.iterations = 1;
  DistillState stored;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    stored = state;
    return Verdict::go_on;
  };
  distill(problem.training, problem.validation, options);
  const auto refused = [&](const std::function<void(Remembered&)>& spoil) {
    DistillState spoilt = stored;
    spoilt.starts[0].direct.memory = {{stored.starts[0].theta, {0, 1}, -1, 0.05, nullptr}};
    spoil(spoilt.starts[0].direct.memory[0]);
    EXPECT_THROW(distill(problem.training, problem.validation, options, spoilt), Error);
  };
  refused([](Remembered& entry) { entry.samples = {0, 64}; });
  refused([](Remembered& entry) { entry.samples = {-1}; });
  refused([](Remembered& entry) { entry.samples = {}; });
  refused([](Remembered& entry) { entry.theta.pop_back(); });
}

// A budget is spent as far as it goes: with fewer trials rather than not at all.
TEST(Direct, KeepsItsBudgetAndUsesIt) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = direct(4, fm_ot_schedule());
  for (const int64_t budget : {5000, 8000, 12000}) {
    options.most_calls = budget;
    const DistillSummary summary = distill(problem.training, problem.validation, options);
    EXPECT_LE(summary.calls(), budget);
    EXPECT_GT(summary.calls(), budget / 2) << summary.brief_report();
  }
}

// What is measured after each iteration, under a budget.
std::vector<double> measured_within(const PlainProblem& problem, int64_t budget) {
  DistillOptions options = direct(4, fm_ot_schedule());
  options.most_calls = budget;
  std::vector<double> measured;
  options.on_iteration = [&](const DistillProgress& progress, const DistillState&) {
    measured.push_back(progress.validation_psnr);
    return Verdict::go_on;
  };
  distill(problem.training, problem.validation, options);
  return measured;
}

// Only the last iteration may have had fewer dampings to choose from.
TEST(Direct, ALargerBudgetGoesOnFromWhereASmallerOneEnded) {
  const PlainProblem problem(fm_ot_schedule());
  const std::vector<double> all = measured_within(problem, 40000);
  for (const int64_t budget : {9000, 14000, 20000}) {
    const std::vector<double> some = measured_within(problem, budget);
    ASSERT_GT(some.size(), 1u);
    ASSERT_LT(some.size(), all.size());
    for (size_t i = 0; i + 1 < some.size(); ++i) EXPECT_EQ(some[i], all[i]) << budget;
  }
}

TEST(Direct, TakesMoreSamplesAfterAnIterationWithoutAGain) {
  const auto mixture = testing::plain_mixture({512, 4, 7, 0.6, 0.2, 0.5});
  const Samples training = plain_samples(mixture, fm_ot_schedule(), 48, 1);
  const Samples validation = plain_samples(mixture, fm_ot_schedule(), 16, 2);
  DistillOptions options = direct(2, fm_ot_schedule());
  options.least_gain = 100;
  std::vector<int64_t> batches, next;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    batches.push_back(state.starts[0].direct.batch);
    next.push_back(state.starts[0].direct.next_sample);
    return Verdict::go_on;
  };
  EXPECT_EQ(distill(training, validation, options).ending, Ending::converged);
  EXPECT_EQ(batches, (std::vector<int64_t>{4, 8, 16, 16}));
  EXPECT_EQ(next, (std::vector<int64_t>{4, 12, 28, 44}));
}

// Of the gap after t_0, which is the smaller one here.
TEST(Direct, MovesTimesByLessWhereAnswersAreExact) {
  const NsSolver solver = make_solver("euler", {8, fm_ot_schedule(), "uniform-t:start=0.5"});
  const FamilyPtr family = bns_family(8);
  const Matrix jacobian = family->jacobian(family->parameters(solver));
  const auto part = [&](double difference, double time_difference) {
    DirectOptions options;
    options.difference = difference;
    options.time_difference = time_difference;
    return jacobian_changes(solver, jacobian, options).front().size / solver.times[8] * 16;
  };
  EXPECT_NEAR(part(2e-3, 0), 0.05, 1e-12);
  EXPECT_NEAR(part(4e-3, 0), 0.1, 1e-12);
  EXPECT_NEAR(part(5e-2, 0), 0.2, 1e-12);
  EXPECT_NEAR(part(5e-2, 0.03), 0.03, 1e-12);
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
  const PlainProblem problem(fm_ot_schedule());
  const auto cost = [&](const FamilyPtr& family) {
    const Matrix jacobian = family->jacobian(family->parameters(solver));
    DirectOptions options;
    options.difference = 1e-3;
    Counts counts;
    const Runs runs = problem.training.run(solver, {0, 1, 2}, &counts);
    problem.training.columns(runs, jacobian_changes(solver, jacobian, options), &counts);
    return counts.forwards;
  };
  // Of a sample: the run, 112 for coefficients, twice 36 for times, 8 for the start scale.
  EXPECT_EQ(cost(bns_family(8)), 3 * (8 + 112 + 72 + 8));
  EXPECT_EQ(cost(bns_family(8, {true, {}})), 3 * (8 + 112 + 72));
}

// A model with rounding errors of a known size, as seen through answers to small changes.
TEST(Direct, MeasuresHowWellAnswersRepeat) {
  for (const double step : {1e-4, 1e-3, 1e-2}) {
    testing::PlainSamplesOptions options;
    options.flaws.rounding = step;
    const Samples rounding =
        plain_samples(testing::plain_mixture(), fm_ot_schedule(), 16, 1, options);
    const NsSolver solver = make_solver("midpoint", {4, fm_ot_schedule(), "uniform-t:start=0.1"});
    Counts counts;
    const Runs runs = rounding.run(solver, first_samples(rounding), &counts);
    const double noise = answer_noise(rounding, runs, solver, &counts);
    EXPECT_GT(noise, 0.01 * step);
    EXPECT_LT(noise, 3 * step);
    EXPECT_EQ(counts.forwards, 16 * 3 * 4);
  }
  const Samples exact = plain_samples(testing::plain_mixture(), fm_ot_schedule(), 16, 1);
  Counts counts;
  const NsSolver solver = make_solver("midpoint", {4, fm_ot_schedule(), "uniform-t:start=0.1"});
  const Runs runs = exact.run(solver, first_samples(exact), &counts);
  EXPECT_LT(answer_noise(exact, runs, solver, &counts), 1e-6);
}

// Velocities known to two and a half decimals, as in bfloat16: differences as small as suit
// float32 would see mostly rounding.
TEST(Direct, TakesWiderDifferencesOfImpreciseModels) {
  const auto mixture = testing::plain_mixture();
  testing::PlainSamplesOptions imprecise;
  imprecise.flaws.rounding = 4e-3;
  const Samples training = plain_samples(mixture, fm_ot_schedule(), 64, 1, imprecise);
  const Samples validation = plain_samples(mixture, fm_ot_schedule(), 64, 2, imprecise);
  DistillOptions options = direct(4, fm_ot_schedule());
  double difference = 0;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    difference = state.starts[0].direct.difference;
    return Verdict::go_on;
  };
  const DistillSummary summary = distill(training, validation, options);
  EXPECT_GT(difference, 0.01);
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 1) << summary.brief_report();
}

TEST(Direct, RefusesAModelThatAnswersAnyhow) {
  testing::PlainSamplesOptions shaky;
  shaky.flaws.jitter = 0.5;
  const Samples training = plain_samples(testing::plain_mixture(), fm_ot_schedule(), 32, 1, shaky);
  DistillOptions options = direct(4, fm_ot_schedule());
  try {
    distill(training, training, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("answers nearly the same call differently"),
              std::string::npos);
  }
}

// What pipelines ask for: the noise as it is, times as they will be rounded.
TEST(Direct, KeepsConstraintsAndLosesLittleByThem) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = direct(4, fm_ot_schedule());
  const double free = distill(problem.training, problem.validation, options).validation_psnr;
  options.family = bns_family(4, {true, {TimeRounding::Kind::integer, 50}});
  const DistillSummary held = distill(problem.training, problem.validation, options);
  EXPECT_EQ(held.solver.start_scale, 1);
  for (const double t : held.solver.times) EXPECT_NEAR(50 * t, std::round(50 * t), 1e-9);
  EXPECT_GT(held.validation_psnr, held.initial_psnr + 2) << held.brief_report();
  // The free solver's times rounded afterwards, at their best last step, do worse.
  EXPECT_LT(held.validation_psnr, free + 1);
}

}  // namespace
}  // namespace bespoke
