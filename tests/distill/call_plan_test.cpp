#include "bespoke/distill/call_plan.h"

#include <gtest/gtest.h>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"
#include "bespoke/run/reference.h"
#include "plain_problem.h"
#include "refusal.h"

namespace bespoke {
namespace {

CallPlan plan(int64_t calls, int64_t run = 8) {
  CallBudget budget;
  budget.calls = calls;
  budget.run = run;
  return plan_calls(budget);
}

TEST(CallPlan, DrawsMoreSamplesForMoreCallsAndHoldsOutWhereThatPays) {
  EXPECT_EQ(plan(100).samples, 2);
  EXPECT_EQ(plan(400).samples, 5);
  int64_t before = 0;
  for (const int64_t calls : {60, 200, 400, 1000, 3000, 10000, 30000, 300000}) {
    const CallPlan found = plan(calls);
    EXPECT_GE(found.samples, before);
    EXPECT_LE(found.samples * (found.evaluations + 8) + found.held_out * found.evaluations, calls);
    EXPECT_EQ(found.held_out > 0, calls >= 3000) << calls;
    before = found.samples;
  }
}

// What few evaluations draw may be further from the truth than a solver found by them.
TEST(CallPlan, DrawsMoreExactlyWhereCallsAreMany) {
  EXPECT_EQ(plan(1000).evaluations, 30);
  EXPECT_EQ(plan(300000).evaluations, 120);
  for (const int64_t calls : {10000, 30000, 100000}) {
    const CallPlan found = plan(calls);
    EXPECT_GT(found.evaluations, 30) << calls;
    EXPECT_LE((found.samples + found.held_out) * found.evaluations, calls / 6) << calls;
  }
}

TEST(CallPlan, LoosensTheReferenceBeforeItGivesUp) {
  EXPECT_EQ(plan(38).evaluations, 30);
  EXPECT_EQ(plan(28).evaluations, 20);
  EXPECT_EQ(plan(20).evaluations, 12);
  const std::string told = testing::refusal([] { plan(19); }, ErrorKind::usage);
  EXPECT_NE(told.find("at least 20"), std::string::npos) << told;
}

TEST(CallPlan, KeepsToTheSamplesAskedFor) {
  CallBudget budget;
  budget.calls = 1000;
  budget.samples = 3;
  EXPECT_EQ(plan_calls(budget).samples, 3);
  budget.samples = 100;
  EXPECT_NE(testing::refusal([&] { plan_calls(budget); }, ErrorKind::usage).find("2,000"),
            std::string::npos);
}

TEST(CallPlan, CountsBothCallsOfGuidance) {
  CallBudget budget;
  budget.calls = 400;
  budget.run = 16;
  budget.evaluation = 2;
  budget.holds_out = true;
  const CallPlan found = plan_calls(budget);
  EXPECT_GE(found.held_out, 1);
  EXPECT_LE((found.samples + found.held_out) * 2 * found.evaluations, 400);
}

// A distillation as its plan has it, with every call of the model counted where it is made.
struct Spent {
  int64_t calls = 0;
  DistillSummary summary;
};

Spent distilled(int64_t calls, Method method) {
  const auto mixture = testing::plain_mixture({64, 4, 7, 0.6, 0.2, 0.5});
  const SchedulePtr schedule = fm_ot_schedule();
  Spent spent;
  const auto exact = testing::mixture_function(mixture, schedule);
  const auto field = plain_field([&](const std::vector<double>& times, const PlainArray& x,
                                     const std::vector<int64_t>& samples) {
    spent.calls += x.count;
    return exact(times, x, samples);
  });
  const CallPlan wanted = plan(calls, 4);
  const auto drawn = [&](uint64_t seed, int64_t count, DistillOptions& options) {
    const testing::Array noise =
        testing::normal_array(seed, static_cast<size_t>(count), mixture.dimension);
    const Array start = Array::of(PlainArray{noise.values, count});
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    ReferenceOptions reference;
    reference.fixed_evaluations = wanted.evaluations;
    reference.record = count;
    const Reference found = draw_reference(field, plain_arrays(), start, numbers, reference);
    options.reference_forwards += count * wanted.evaluations;
    return Samples(field, start, found.x, std::make_shared<Trajectories>(found.trajectories));
  };
  DistillOptions options;
  options.nfe = 4;
  options.method = method;
  options.field.schedule = schedule;
  options.most_calls = calls;
  const Samples training = drawn(1, wanted.samples, options);
  if (wanted.held_out == 0) {
    spent.summary = distill(training, training, options);
  } else {
    spent.summary = distill(training, drawn(2, wanted.held_out, options), options);
  }
  return spent;
}

TEST(CallPlan, IsKeptToWhateverTheNumber) {
  for (const Method method : {Method::automatic, Method::fit}) {
    for (const int64_t calls : {24, 60, 110, 400, 1000, 3000, 8000}) {
      const Spent spent = distilled(calls, method);
      EXPECT_LE(spent.calls, calls) << spent.summary.brief_report();
      EXPECT_EQ(spent.calls, spent.summary.calls()) << spent.summary.brief_report();
      EXPECT_EQ(spent.summary.held_out > 0, plan(calls, 4).held_out > 0);
    }
  }
}

TEST(CallPlan, SpendsNothingOnMeasuringAFitToAllSamples) {
  const Spent spent = distilled(110, Method::fit);
  EXPECT_EQ(spent.summary.validation.forwards, 0);
  EXPECT_GT(spent.summary.validation_psnr, 20);
  // Where samples are held out, measurements are all there are.
  EXPECT_GT(distilled(8000, Method::fit).summary.validation.forwards, 0);
}

TEST(CallPlan, BuysBetterSolversWithMoreCalls) {
  const auto unseen = testing::plain_samples(testing::plain_mixture({64, 4, 7, 0.6, 0.2, 0.5}),
                                             fm_ot_schedule(), 64, 9, {{}, 0});
  const auto loss = [&](int64_t calls) {
    Counts counts;
    const auto errors = unseen.log_errors(distilled(calls, Method::automatic).summary.solver,
                                          first_samples(unseen), &counts);
    return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  };
  const double few = loss(60), some = loss(600), many = loss(8000);
  EXPECT_LT(some, few);
  EXPECT_LT(many, some - 0.3);
}

}  // namespace
}  // namespace bespoke
