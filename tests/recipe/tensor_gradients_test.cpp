#include "bespoke/recipe/tensor_samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bespoke/base/mean.h"
#include "bespoke/distill/family.h"
#include "bespoke/distill/sample_choice.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/errors.h"
#include "problem.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using detail::mean;

using testing::Problem;
using testing::small_problem;
using testing::start_solver;

double loss(const Samples& samples, const std::vector<double>& coefficients) {
  Counts counts;
  return mean(samples.log_errors(solver_of(4, coefficients), first_samples(samples), &counts));
}

void expect_gradient(const Problem& problem, const TensorSamplesOptions& options) {
  const Samples samples = tensor_samples(problem.field, problem.validation, options);
  const TensorGradients gradients(problem.field, problem.validation, options);
  const NsSolver solver = start_solver("midpoint", 4);
  Counts counts;
  const LossGradient model = gradients.at(solver, first_samples(samples), &counts);
  const auto values = coefficients_of(solver);
  EXPECT_NEAR(model.loss, loss(samples, values), 1e-12);
  constexpr double kStep = 1e-6;
  for (size_t c = 1; c < values.size(); ++c) {
    if (c == 4) continue;
    auto up = values, down = values;
    up[c] += kStep;
    down[c] -= kStep;
    const double difference = (loss(samples, up) - loss(samples, down)) / (2 * kStep);
    EXPECT_NEAR(model.gradient[c], difference, 1e-6 * (1 + std::abs(difference))) << c;
  }
}

// A decoder that mixes and bends the sample, to 4 of its 6 dimensions.
torch::Tensor bend(const torch::Tensor& x) {
  return (x.slice(1, 0, 4) + 0.5 * x.slice(1, 2, 6)).tanh();
}

TEST(TensorGradients, GradientMatchesDifferences) {
  const Problem problem = small_problem();
  expect_gradient(problem, {});
}

TEST(TensorGradients, GradientThroughADecoderMatchesDifferences) {
  const Problem problem = small_problem();
  TensorSamplesOptions options;
  options.decode = bend;
  expect_gradient(problem, options);
}

TEST(TensorGradients, LossIsTheMeanPsnr) {
  const Problem problem = small_problem();
  const Samples samples = testing::validation_samples(problem);
  const NsSolver solver = start_solver("midpoint", 4);
  const auto x = sample(solver, *problem.field, problem.validation.x0);
  EXPECT_NEAR(psnr_of_loss(loss(samples, coefficients_of(solver))),
              mean_psnr(x, problem.validation.x1), 1e-10);
}

TEST(TensorGradients, ResultsDoNotDependOnTheDeviceBatch) {
  const Problem problem = small_problem();
  TensorSamplesOptions small, large;
  small.device_batch = 7;
  large.device_batch = 64;
  const NsSolver solver = start_solver("midpoint", 4);
  const auto batch = draw_batch(3, 5, 64, 30);
  Counts counts;
  const auto a =
      TensorGradients(problem.field, problem.validation, small).at(solver, batch, &counts);
  const auto b =
      TensorGradients(problem.field, problem.validation, large).at(solver, batch, &counts);
  EXPECT_NEAR(a.loss, b.loss, 1e-12);
  for (size_t i = 0; i < a.gradient.size(); ++i) {
    EXPECT_NEAR(a.gradient[i], b.gradient[i], 1e-12 * (1 + std::abs(b.gradient[i])));
  }
}

TEST(TensorGradients, TheLastStepIsBestWhereItsLinearModelSays) {
  const Problem problem = small_problem();
  const Samples samples = testing::validation_samples(problem);
  NsSolver solver = start_solver("midpoint", 4);
  const auto batch = first_samples(samples, 64);
  Counts counts;
  const LinearModel before = testing::last_step_at(samples, solver, batch, &counts);
  EXPECT_EQ(counts.forwards, 64 * 4);
  const std::vector<double> change = best_change(before);
  EXPECT_LT(before.loss(change), before.loss(std::vector<double>(5, 0)) - 1);

  // It is the loss that the solver with the moved step has, and it cannot be bettered.
  solver.a.back() += change[0];
  for (size_t j = 0; j < 4; ++j) solver.b.back()[j] += change[1 + j];
  const double there = mean(samples.log_errors(solver, batch, &counts));
  EXPECT_NEAR(there, before.loss(change), 1e-9);
  for (size_t j = 0; j < 5; ++j) {
    for (const double by : {-0.01, 0.01}) {
      std::vector<double> moved = change;
      moved[j] += by;
      EXPECT_GT(before.loss(moved), there);
    }
  }
}

// A team's members sweep back through their own samples, and add up what they found.
TEST(TensorGradients, AreThoseOfATeam) {
  const Problem problem = small_problem();
  const NsSolver solver = start_solver("midpoint", 4);
  const std::vector<int64_t> batch = {0, 1, 2, 3, 4};
  Counts counts;
  const LossGradient one =
      TensorGradients(problem.field, problem.validation).at(solver, batch, &counts);
  testing::ThreadTeam(2).run([&](Team& team) {
    TensorSamplesOptions options;
    options.team = &team;
    Counts shared;
    const LossGradient two =
        TensorGradients(problem.field, problem.validation, options).at(solver, batch, &shared);
    EXPECT_NEAR(two.loss, one.loss, 1e-12);
    ASSERT_EQ(two.gradient.size(), one.gradient.size());
    for (size_t i = 0; i < one.gradient.size(); ++i) {
      EXPECT_NEAR(two.gradient[i], one.gradient[i], 1e-10 * (1 + std::abs(one.gradient[i])));
    }
    EXPECT_EQ(shared.vjps, counts.vjps);
    EXPECT_EQ(shared.forwards, counts.forwards);
  });
}

TEST(SampleChoice, DrawsBatchesWithoutRepetition) {
  const auto batch = draw_batch(1, 2, 50, 20);
  EXPECT_EQ(batch.size(), 20u);
  EXPECT_EQ(std::set<int64_t>(batch.begin(), batch.end()).size(), 20u);
  EXPECT_NE(batch, draw_batch(1, 3, 50, 20));
  EXPECT_EQ(draw_batch(1, 2, 50, 80).size(), 50u);
}

}  // namespace
}  // namespace bespoke
