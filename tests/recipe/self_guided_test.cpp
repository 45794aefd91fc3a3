// Distilling solvers with built-in guidance, on a guided mixture.

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/fit.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "self_guided.h"
#include "support.h"

namespace bespoke {
namespace {

constexpr double kWeight = 2;
constexpr int64_t kClasses = 2;

struct GuidedProblem {
  ModelPtr model;
  std::shared_ptr<const Field> field;
  Pairs training, validation;

  Samples samples(bool train = true) const {
    return tensor_samples(field, train ? training : validation);
  }
};

Pairs guided_pairs(const ModelPtr& model, int64_t count, int64_t seed) {
  PairSource source;
  source.seed = seed;
  source.count = count;
  source.trajectories = count;
  source.tolerances = {1e-7, 1e-7};
  source.conditions = {{"class", torch::arange(count) % kClasses}};
  return make_pairs(model, source);
}

GuidedProblem guided_problem() {
  GuidedProblem problem;
  problem.model = guided_model(mixture_model(testing::small_mixture(48, 6, kClasses),
                                             fm_ot_schedule(), Prediction::velocity),
                               kWeight, {{"class", torch::full({1}, kClasses, torch::kLong)}});
  problem.field = std::make_shared<VelocityField>(problem.model);
  problem.training = guided_pairs(problem.model, 48, 1);
  problem.validation = guided_pairs(problem.model, 32, 2);
  return problem;
}

DistillOptions options_for(int nfe, int network_calls) {
  DistillOptions options;
  options.nfe = nfe;
  options.network_calls = network_calls;
  options.field = {Prediction::velocity, fm_ot_schedule(), kWeight};
  return options;
}

DistillSummary run(const GuidedProblem& problem, const DistillOptions& options,
                   DistillState state = {}) {
  return distill(problem.samples(), problem.samples(false), options, std::move(state));
}

NsSolver some_solver() {
  return testing::guided_in_the_first(
      make_solver("dpm++2m", {4, fm_ot_schedule(), "lambda-range:from=-2.5,to=4"}), 2, 1.8);
}

// The columns of a linearisation are the derivatives of x_n in every number, those of the
// differences included.
TEST(SelfGuidedDistillation, ColumnsAreDerivatives) {
  const GuidedProblem problem = guided_problem();
  const Samples samples = problem.samples(false);
  const NsSolver solver = some_solver();
  const SolverShape shape = solver.shape();
  const FamilyPtr family = bns_family(shape);
  DirectOptions options;
  options.difference = 1e-6;
  options.time_difference = 1e-5;
  const auto changes =
      jacobian_changes(solver, family->jacobian(family->parameters(solver)), options);
  Counts counts;
  const std::vector<int64_t> subset = {0, 5, 9};
  const Runs runs = samples.run(solver, subset, &counts);
  const Columns columns = samples.columns(runs, changes, &counts);
  const LinearModel& model = columns.model;
  // Calls from the steps on are 6, 4, 2, 1. Of a sample: the run, 3 and 5 and 6 coefficients of the
  // first three steps, twice each time, the start scale.
  EXPECT_EQ(counts.forwards, 3 * (6 + (3 * 4 + 5 * 2 + 6 * 1) + 2 * (6 + 4 + 2 + 1) + 6));
  EXPECT_EQ(model.columns(), changes.size() + shape.columns(3));

  const auto index = torch::tensor(subset);
  const Conditions conditions = select(problem.validation.conditions, index);
  const auto residual = [&](const std::vector<double>& coefficients) {
    return sample(solver_of(shape, coefficients), *problem.field,
                  problem.validation.x0.index_select(0, index), conditions) -
           problem.validation.x1.index_select(0, index);
  };
  const auto at = coefficients_of(solver);
  const auto check = [&](size_t column, size_t coefficient) {
    auto up = at, down = at;
    up[coefficient] += 1e-5;
    down[coefficient] -= 1e-5;
    const torch::Tensor derivative = (residual(up) - residual(down)) / 2e-5;
    for (int64_t s = 0; s < 3; ++s) {
      const double product = (derivative[s] * residual(at)[s]).sum().item<double>();
      const double square = derivative[s].square().sum().item<double>();
      const auto& found = model.samples[static_cast<size_t>(s)];
      EXPECT_NEAR(found.products[column], product, 1e-3 * (std::abs(product) + std::sqrt(square)))
          << column;
      EXPECT_NEAR(found.gram(column, column), square, 1e-3 * square + 1e-12) << column;
    }
  };
  for (size_t c = 0; c < changes.size(); ++c) {
    if (changes[c].what != Change::What::coefficient) continue;
    check(c, step_coefficient_index(shape, static_cast<size_t>(changes[c].step),
                                    static_cast<size_t>(changes[c].column)));
  }
  for (size_t column = 0; column < shape.columns(3); ++column) {
    check(changes.size() + column, step_coefficient_index(shape, 3, column));
  }

  // Another solver's errors along these columns: its run is known but for the last step.
  NsSolver other = solver;
  other.c.back()[1] += 0.1;
  const Runs other_runs = samples.with_last_step(runs, other);
  const LinearModel moved = samples.against(columns, other_runs);
  const double expected = residual(coefficients_of(other)).square().sum(1)[1].item<double>();
  EXPECT_NEAR(moved.samples[1].squared_error, expected, 1e-10 * expected);
  const LinearModel last = samples.last_step(other_runs);
  EXPECT_NEAR(last.samples[1].squared_error, expected, 1e-10 * expected);
}

TEST(SelfGuidedDistillation, SolversAreRunTogether) {
  const GuidedProblem problem = guided_problem();
  TensorSamplesOptions options;
  options.joins_runs = true;
  const Samples joined = tensor_samples(problem.field, problem.validation, options);
  const Samples plain = problem.samples(false);
  const NsSolver one = some_solver();
  NsSolver two = one;
  two.c[1][0] += 0.1;
  two.times[2] += 0.02;
  Counts counts, unused;
  const auto runs = joined.run_each({one, two}, {4, 1, 7}, &counts);
  EXPECT_EQ(counts.forwards, 2 * 3 * 6);
  for (size_t k = 0; k < 2; ++k) {
    const LinearModel found = joined.last_step(*runs[k]);
    const LinearModel expected = plain.last_step(plain.run(k == 0 ? one : two, {4, 1, 7}, &unused));
    for (size_t s = 0; s < 3; ++s) {
      EXPECT_NEAR(found.samples[s].squared_error, expected.samples[s].squared_error,
                  1e-10 * expected.samples[s].squared_error);
      EXPECT_EQ(found.samples[s].products.size(), 1 + 4 + 2);
    }
  }
}

TEST(SelfGuidedDistillation, TheFitSolvesForDifferencesToo) {
  const GuidedProblem problem = guided_problem();
  const Samples samples = problem.samples();
  FitOptions options;
  options.guided = {0, 1, 2};
  Counts counts;
  const auto times = make_grid("lambda-range:from=-3,to=4", 5, *fm_ot_schedule());
  const FittedSolver fitted =
      fit_solver(samples, first_samples(samples, 16), times, options, &counts);
  fitted.solver.validate();
  EXPECT_EQ(fitted.solver.guided, options.guided);
  EXPECT_EQ(counts.forwards, 16 * 8);
  double sum = 0;
  for (const double e : samples.log_errors(fitted.solver, first_samples(samples, 16), &counts))
    sum += e / 16;
  EXPECT_NEAR(fitted.loss, sum, 1e-4);
}

TEST(SelfGuidedDistillation, SharesTheCallsBetterThanAnOrdinarySolver) {
  const GuidedProblem problem = guided_problem();
  const DistillSummary ordinary = run(problem, options_for(4, 0));
  const DistillSummary automatic = run(problem, options_for(0, 8));
  EXPECT_EQ(automatic.solver.shape().calls(), 8);
  EXPECT_GT(automatic.validation_psnr, ordinary.validation_psnr);
  EXPECT_NE(automatic.brief_report().find("(8 network calls)"), std::string::npos);
  // Asked for a number of steps, it has that.
  DistillOptions fixed = options_for(5, 8);
  fixed.method = Method::fit;
  const DistillSummary five = run(problem, fixed);
  EXPECT_TRUE(five.solver.shape() == guided_first(5, 3));
  EXPECT_EQ(five.iterations, 0);
}

TEST(SelfGuidedDistillation, GoesOnWhereItStopped) {
  const GuidedProblem problem = guided_problem();
  DistillOptions options = options_for(0, 8);
  options.iterations = 3;
  const DistillSummary whole = run(problem, options);
  std::string text;
  DistillOptions first = options;
  first.on_iteration = [&](const DistillProgress&, const DistillState& state) {
    text = to_json_text(state);
    return Verdict::stop;
  };
  EXPECT_EQ(run(problem, first).ending, Ending::stopped);
  const DistillSummary rest = run(problem, options, parse_distill_state(text, "state"));
  EXPECT_TRUE(rest.solver == whole.solver);
  EXPECT_EQ(rest.training.forwards, whole.training.forwards);
  EXPECT_EQ(rest.screening.forwards, whole.screening.forwards);
}

TEST(SelfGuidedDistillation, KeepsItsBudget) {
  const GuidedProblem problem = guided_problem();
  for (const int nfe : {0, 6}) {
    DistillOptions options = options_for(nfe, 8);
    options.most_calls = 12000;
    const DistillSummary summary = run(problem, options);
    EXPECT_GT(summary.iterations, 0);
    EXPECT_LE(summary.calls(), 12000);
  }
}

TEST(SelfGuidedDistillation, NeedsTrajectories) {
  GuidedProblem problem = guided_problem();
  problem.training.trajectories = nullptr;
  try {
    run(problem, options_for(0, 8));
    ADD_FAILURE() << "ran without trajectories";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("trajectories"), std::string::npos);
  }
}

}  // namespace
}  // namespace bespoke
