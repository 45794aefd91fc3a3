#include "bespoke/distill/distill.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/function_model.h"
#include "bespoke/sample/sampler.h"
#include "problem.h"

namespace bespoke {
namespace {

using testing::Problem;
using testing::small_problem;
using testing::start_solver;

NamedSolver named_start(const std::string& name, int nfe) {
  return {name, start_solver(name, nfe)};
}

DistillOptions from_midpoint(int nfe) {
  DistillOptions options;
  options.nfe = nfe;
  options.starts = {named_start("midpoint", nfe)};
  options.iterations = 25;
  return options;
}

DistillSummary run(const Problem& problem, const DistillOptions& options, DistillState state = {}) {
  const TensorGradients gradients(problem.field, problem.training);
  return distill(testing::training_samples(problem), testing::validation_samples(problem), options,
                 std::move(state), &gradients);
}

TEST(Distill, GainsManyDecibelsWithoutGradients) {
  const Problem problem = small_problem();
  const auto summary = run(problem, from_midpoint(4));
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 15);
  EXPECT_GT(summary.validation_psnr, 50);
  EXPECT_GT(summary.training_psnr, summary.initial_psnr + 15);
  EXPECT_GT(summary.training.forwards, 0);
  EXPECT_EQ(summary.training.vjps, 0);
  summary.solver.validate();
}

TEST(Distill, WorksOnOtherPathsAndPredictions) {
  const Problem problem = small_problem(vp_schedule(), Prediction::noise);
  auto options = from_midpoint(4);
  options.starts = {{"euler", start_solver("euler", 4, vp_schedule())}};
  const auto summary = run(problem, options);
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 10);
}

// Stops after `count` iterations; the state goes through text, as a file would hold it.
DistillSummary interrupted(const Problem& problem, DistillOptions options, int count) {
  std::string text;
  int done = 0;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    text = to_json_text(state);
    return ++done == count ? Verdict::stop : Verdict::go_on;
  };
  EXPECT_EQ(run(problem, options).ending, Ending::stopped);
  options.on_iteration = nullptr;
  return run(problem, options, parse_distill_state(text, "state"));
}

void expect_same(const DistillSummary& left, const DistillSummary& right) {
  EXPECT_TRUE(left.solver == right.solver);
  EXPECT_EQ(left.validation_psnr, right.validation_psnr);
  EXPECT_EQ(left.start, right.start);
  EXPECT_EQ(left.iterations, right.iterations);
  EXPECT_EQ(left.training.forwards, right.training.forwards);
  EXPECT_EQ(left.training.vjps, right.training.vjps);
  EXPECT_EQ(left.ending, right.ending);
}

TEST(Distill, GoesOnFromAStoredStateToTheSameBits) {
  const Problem problem = small_problem();
  auto automatic = from_midpoint(4);
  automatic.iterations = 9;
  automatic.validation_interval = 2;
  for (const char* name : {"euler", "heun"}) automatic.starts.push_back(named_start(name, 4));
  auto adam = automatic;
  adam.method = Method::adam;
  adam.validation_interval = 4;
  // While starts are tried, two and four iterations each, and after.
  const auto expect_seamless = [&](const DistillOptions& options, const std::vector<int>& counts) {
    const auto whole = run(problem, options);
    for (const int count : counts) expect_same(interrupted(problem, options, count), whole);
  };
  expect_seamless(automatic, {1, 4, 5, 6, 7, 9});
  expect_seamless(adam, {1, 8, 12, 14});
}

TEST(Distill, RefusesTheStateOfAnotherRun) {
  const Problem problem = small_problem();
  auto options = from_midpoint(4);
  options.iterations = 1;
  DistillState kept;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    kept = state;
    return Verdict::go_on;
  };
  run(problem, options);
  options.seed = 5;
  EXPECT_THROW(run(problem, options, kept), Error);
  EXPECT_THROW(parse_distill_state("{}", "state"), Error);
}

// A field that breaks down after a number of evaluations.
std::shared_ptr<const Field> failing_field(std::shared_ptr<const Field> field, int good) {
  const auto left = std::make_shared<int>(good);
  return function_field([=](const torch::Tensor& x, const torch::Tensor& t, const Conditions& c) {
    const auto u = field->velocity(x, t, c);
    return --*left < 0 ? u * std::nan("") : u;
  });
}

TEST(Distill, KeepsTheBestSolverWhereTheModelBreaksDown) {
  Problem problem = small_problem();
  auto options = from_midpoint(4);
  options.validation_interval = 1;
  problem.field = failing_field(problem.field, 160);
  double best = 0;
  NsSolver solver;
  options.on_iteration = [&](const DistillProgress& progress, const DistillState& state) {
    best = progress.best_psnr;
    solver = bns_family(4)->solver(state.starts[0].best_theta);
    return Verdict::go_on;
  };
  const auto summary = run(problem, options);
  EXPECT_EQ(summary.ending, Ending::diverged);
  EXPECT_FALSE(summary.message.empty());
  EXPECT_TRUE(summary.solver == solver);
  EXPECT_EQ(summary.validation_psnr, best);
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr);
}

TEST(Distill, EndsWhereTheBudgetOrTheValidationSays) {
  const Problem problem = small_problem();
  auto options = from_midpoint(4);
  options.most_calls = 3000;
  const auto limited = run(problem, options);
  EXPECT_EQ(limited.ending, Ending::calls);
  EXPECT_LE(limited.calls(), 3000);
  options.most_calls = 0;
  options.iterations = 500;
  EXPECT_EQ(run(problem, options).ending, Ending::converged);
}

TEST(Distill, GoesOnFromTheBetterStart) {
  const Problem problem = small_problem();
  auto options = from_midpoint(4);
  NsSolver poor = start_solver("euler", 4);
  for (auto& row : poor.b) row.assign(row.size(), 0);  // sees the field only where the noise is
  options.starts = {{"poor", poor}, named_start("midpoint", 4)};
  options.validation_interval = 1;
  const auto summary = run(problem, options);
  EXPECT_EQ(summary.start, "midpoint");
  EXPECT_GT(summary.iterations, 3);
}

// Scale-time midpoint steps as they are defined, on the transformed field, for the parameters that
// theta stands for.
torch::Tensor native_scale_time(const std::vector<double>& theta, int nfe, const Field& field,
                                const torch::Tensor& x0) {
  const auto count = static_cast<size_t>(nfe);
  const std::vector<double> t = bst_family(ScaleTimeBase::rk2, nfe)->solver(theta).times;
  const auto t_dot = [&](size_t k) { return std::exp(theta[count + k]); };
  const auto s = [&](size_t k) { return k == 0 ? 1 : std::exp(theta[2 * count + k - 1]); };
  const auto s_dot = [&](size_t k) { return theta[3 * count + k]; };
  // bar u_r(y) = (s_dot / s) y + t_dot s u(t, y / s) at point k.
  const auto bar_u = [&](size_t k, const torch::Tensor& y) {
    const auto time = torch::full({x0.size(0)}, t[k], torch::kDouble);
    return s_dot(k) / s(k) * y + t_dot(k) * s(k) * field.velocity(y / s(k), time, {});
  };
  const double h = 2.0 / nfe;
  torch::Tensor y = s(0) * x0;
  for (size_t k = 0; k < count; k += 2) {
    const auto half = y + h / 2 * bar_u(k, y);
    y = y + h * bar_u(k + 1, half);
  }
  return y / s(count);
}

TEST(Distill, ScaleTimeSolversTrainAndKeepTheirConstraints) {
  const Problem problem = small_problem();
  auto options = from_midpoint(4);
  options.family = bst_family(ScaleTimeBase::rk2, 4);
  std::vector<double> theta;
  options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    theta = state.starts[0].best_theta;
    return Verdict::go_on;
  };
  const auto summary = run(problem, options);
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 6);
  EXPECT_EQ(summary.solver.times.front(), 0);
  EXPECT_EQ(summary.solver.times.back(), 1);
  for (int i = 0; i < 4; ++i) EXPECT_LT(summary.solver.times[i], summary.solver.times[i + 1]);
  // The reduced solver draws the samples of the method it came from, and its parameters say that
  // t_dot and s are positive: parameters() would refuse it otherwise.
  const auto& x0 = problem.validation.x0;
  EXPECT_LT(testing::relative_error(sample(summary.solver, *problem.field, x0),
                                    native_scale_time(theta, 4, *problem.field, x0)),
            1e-12);
  EXPECT_NO_THROW(options.family->parameters(summary.solver));
}

TEST(Adam, LowersTheLoss) {
  const Problem problem = small_problem();
  auto options = from_midpoint(4);
  options.method = Method::adam;
  options.adam.rate = 5e-3;
  options.iterations = 200;
  const auto summary = run(problem, options);
  EXPECT_GT(summary.validation_psnr, summary.initial_psnr + 4);
  EXPECT_EQ(summary.iterations, 200);
  EXPECT_EQ(summary.ending, Ending::iterations);
}

TEST(Adam, FollowsItsSchedules) {
  AdamOptions options;
  EXPECT_DOUBLE_EQ(learning_rate(options, 0, 15000), 5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 7500, 15000), 2.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 14999, 15000), 5e-4 / 15000);
  options.rate = 1e-4;
  options.decay = RateDecay::cosine;
  EXPECT_DOUBLE_EQ(learning_rate(options, 0, 15000), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 5000, 15000), 0.75e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10000, 15000), 0.25e-4);
}

TEST(Adam, UpdatesAsPublished) {
  AdamOptions options;
  options.rate = 0.1;
  AdamState state;
  std::vector<double> theta = {1, 2};
  adam_update(options, 0, 10, {4, -0.5}, state, theta);
  // The first step has the length of the rate, whatever the gradient.
  EXPECT_NEAR(theta[0], 1 - 0.1, 1e-8);
  EXPECT_NEAR(theta[1], 2 + 0.1, 1e-8);
  adam_update(options, 1, 10, {0, -0.5}, state, theta);
  const double first = 0.9 * 0.4 / (1 - 0.81), second = 0.999 * 0.016 / (1 - 0.998001);
  EXPECT_NEAR(theta[0], 0.9 - 0.09 * first / std::sqrt(second), 1e-8);
}

}  // namespace
}  // namespace bespoke
