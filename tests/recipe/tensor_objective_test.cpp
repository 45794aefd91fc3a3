#include "bespoke/recipe/tensor_objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bespoke/base/mean.h"
#include "bespoke/distill/family.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/errors.h"
#include "problem.h"

namespace bespoke {
namespace {

using detail::mean;

using testing::Problem;
using testing::small_problem;
using testing::start_solver;

double loss(const Objective& objective, const std::vector<double>& coefficients) {
  Counts counts;
  return mean(objective.log_errors(solver_of(4, coefficients), first_samples(objective), &counts));
}

LocalModelOptions with_probes(int probes) { return {probes, false, 0, 9, 4}; }

void expect_gradient(const Objective& objective) {
  const NsSolver solver = start_solver("midpoint", 4);
  Counts counts;
  const LocalModel model =
      objective.local_model(solver, first_samples(objective), with_probes(0), &counts);
  const auto values = coefficients_of(solver);
  EXPECT_NEAR(model.loss, loss(objective, values), 1e-12);
  constexpr double kStep = 1e-6;
  for (size_t c = 1; c < values.size(); ++c) {
    if (c == 4) continue;
    auto up = values, down = values;
    up[c] += kStep;
    down[c] -= kStep;
    const double difference = (loss(objective, up) - loss(objective, down)) / (2 * kStep);
    EXPECT_NEAR(model.gradient[c], difference, 1e-6 * (1 + std::abs(difference))) << c;
  }
}

// A decoder that mixes and bends the sample, to 4 of its 6 dimensions.
torch::Tensor bend(const torch::Tensor& x) {
  return (x.slice(1, 0, 4) + 0.5 * x.slice(1, 2, 6)).tanh();
}

TEST(TensorObjective, GradientMatchesDifferences) {
  const Problem problem = small_problem();
  expect_gradient(TensorObjective(problem.field, problem.validation, {}));
}

TEST(TensorObjective, GradientThroughADecoderMatchesDifferences) {
  const Problem problem = small_problem();
  TensorObjectiveOptions options;
  options.decode = bend;
  expect_gradient(TensorObjective(problem.field, problem.validation, options));
}

TEST(TensorObjective, GradientOfTheSmoothedLossMatchesDifferences) {
  const Problem problem = small_problem();
  const TensorObjective objective = testing::validation_objective(problem);
  const NsSolver solver = start_solver("midpoint", 4);
  LocalModelOptions options = with_probes(0);
  options.smoothing = 0.3;
  Counts counts;
  const LocalModel model =
      objective.local_model(solver, first_samples(objective, 64), options, &counts);
  const auto values = coefficients_of(solver);
  EXPECT_NEAR(model.floor, 0.3 * std::exp(loss(objective, values)) * 6, 1e-12);
  const auto smoothed = [&](const std::vector<double>& coefficients) {
    auto errors =
        objective.log_errors(solver_of(4, coefficients), first_samples(objective, 64), &counts);
    for (double& e : errors) e = std::log(std::exp(e) + model.floor / 6);
    return mean(errors);
  };
  EXPECT_NEAR(model.loss, smoothed(values), 1e-12);
  for (const size_t c : {2, 6, 12, 18}) {
    auto up = values, down = values;
    up[c] += 1e-6;
    down[c] -= 1e-6;
    EXPECT_NEAR(model.gradient[c], (smoothed(up) - smoothed(down)) / 2e-6, 1e-5) << c;
  }
}

TEST(TensorObjective, LossIsTheMeanPsnr) {
  const Problem problem = small_problem();
  const TensorObjective objective = testing::validation_objective(problem);
  const NsSolver solver = start_solver("midpoint", 4);
  const auto x = sample(solver, *problem.field, problem.validation.x0);
  EXPECT_NEAR(psnr_of_loss(loss(objective, coefficients_of(solver))),
              mean_psnr(x, problem.validation.x1), 1e-10);
}

TEST(TensorObjective, ResultsDoNotDependOnTheDeviceBatch) {
  const Problem problem = small_problem();
  TensorObjectiveOptions small, large;
  small.device_batch = 7;
  large.device_batch = 64;
  const NsSolver solver = start_solver("midpoint", 4);
  const auto batch = draw_batch(3, 5, 64, 30);
  Counts counts;
  const auto a = TensorObjective(problem.field, problem.validation, small)
                     .local_model(solver, batch, with_probes(2), &counts);
  const auto b = TensorObjective(problem.field, problem.validation, large)
                     .local_model(solver, batch, with_probes(2), &counts);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradient, b.gradient);
  for (size_t i = 0; i < a.curvature.values.size(); ++i) {
    EXPECT_NEAR(a.curvature.values[i], b.curvature.values[i],
                1e-12 * (1 + std::abs(b.curvature.values[i])));
  }
}

TEST(TensorObjective, ProbesEstimateTheGaussNewtonMatrix) {
  const Problem problem = small_problem();
  const TensorObjective objective = testing::validation_objective(problem);
  const NsSolver solver = start_solver("midpoint", 4);
  Counts counts;
  const auto batch = first_samples(objective, 8);
  const Matrix estimate =
      objective.local_model(solver, batch, with_probes(4000), &counts).curvature;

  // J column by column from differences of x_n.
  const auto values = coefficients_of(solver);
  const auto x0 = problem.validation.x0.slice(0, 0, 8);
  const auto r = sample(solver, *problem.field, x0) - problem.validation.x1.slice(0, 0, 8);
  const auto weight = 2 / r.pow(2).sum(1, true);
  std::vector<torch::Tensor> columns;
  for (size_t c = 0; c < values.size(); ++c) {
    auto up = values, down = values;
    up[c] += 1e-6;
    down[c] -= 1e-6;
    columns.push_back(c == 0 || c == 4 ? torch::zeros_like(r)
                                       : (sample(solver_of(4, up), *problem.field, x0) -
                                          sample(solver_of(4, down), *problem.field, x0)) /
                                             2e-6);
  }
  double difference = 0, size = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    for (size_t j = 0; j < columns.size(); ++j) {
      const double exact = (weight * columns[i] * columns[j]).sum().item<double>() / 8;
      difference += std::pow(estimate(i, j) - exact, 2);
      size += exact * exact;
    }
  }
  EXPECT_LT(std::sqrt(difference / size), 0.05);
}

TEST(TensorObjective, RefitsTheLastStepWithoutEvaluatingTheModel) {
  const Problem problem = small_problem();
  const TensorObjective objective = testing::validation_objective(problem);
  NsSolver solver = start_solver("midpoint", 4);
  const auto batch = first_samples(objective, 64);
  Counts plain, refitted, last_counts;
  const LocalModel before = objective.local_model(solver, batch, with_probes(1), &plain);
  LocalModelOptions options = with_probes(1);
  options.refit_last_step = true;
  const LocalModel after = objective.local_model(solver, batch, options, &refitted);
  EXPECT_EQ(refitted.forwards, plain.forwards);
  EXPECT_LT(after.loss, before.loss - 1);

  // It is what the solver with the refitted step has, in loss and gradient, and cannot be bettered.
  solver.a.back() += after.last_step[0];
  for (size_t j = 0; j < 4; ++j) solver.b.back()[j] += after.last_step[1 + j];
  const LocalModel there = objective.local_model(solver, batch, with_probes(1), &plain);
  EXPECT_NEAR(there.loss, after.loss, 1e-9);
  for (size_t c = 0; c < there.gradient.size(); ++c) {
    EXPECT_NEAR(there.gradient[c], after.gradient[c], 1e-6 * (1 + std::abs(there.gradient[c])));
  }
  const LinearModel last = objective.last_step(solver, batch, &last_counts);
  EXPECT_EQ(last_counts.forwards, 64 * 4);
  EXPECT_NEAR(last.loss(std::vector<double>(5, 0)), after.loss, 1e-9);
  EXPECT_NEAR(last.loss(best_change(last)), after.loss, 1e-4);
  for (size_t j = 0; j < 5; ++j) {
    for (const double change : {-0.01, 0.01}) {
      std::vector<double> moved(5, 0);
      moved[j] = change;
      EXPECT_GT(last.loss(moved), after.loss);
    }
  }
}

TEST(TensorObjective, DrawsBatchesWithoutRepetition) {
  const auto batch = draw_batch(1, 2, 50, 20);
  EXPECT_EQ(batch.size(), 20u);
  EXPECT_EQ(std::set<int64_t>(batch.begin(), batch.end()).size(), 20u);
  EXPECT_NE(batch, draw_batch(1, 3, 50, 20));
  EXPECT_EQ(draw_batch(1, 2, 50, 80).size(), 50u);
}

}  // namespace
}  // namespace bespoke
