// What the fit and the direct method ask of the objective, against differences and closed forms.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/fit.h"
#include "bespoke/model/function_model.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/tensor_objective.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/errors.h"
#include "problem.h"

namespace bespoke {
namespace {

using testing::Problem;
using testing::small_problem;

NsSolver rising_solver(const SchedulePtr& schedule) {
  return make_solver("dpm++2m", {4, schedule, "lambda-range:from=-2.5,to=4"});
}

// Another of the same shape.
NsSolver start_like(const NsSolver& solver) {
  NsSolver other = solver;
  other.start_scale *= 0.98;
  other.times[1] += 0.01;
  other.b[0][0] *= 1.02;
  return other;
}

std::vector<Change> changes_of(const NsSolver& solver, double difference, double time_difference) {
  DirectOptions options;
  options.difference = difference;
  options.time_difference = time_difference;
  const FamilyPtr family = bns_family(solver.nfe());
  return jacobian_changes(solver, family->jacobian(family->parameters(solver)), options);
}

// The columns of a linearisation are the derivatives of x_n: in every coefficient, J^T r and the
// diagonal of J^T J are those of central differences.
void expect_derivatives(const Problem& problem, const TensorObjectiveOptions& objective_options) {
  const TensorObjective objective(problem.field, problem.validation, objective_options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  Counts counts;
  const LinearModel model = objective.linearise(solver, {0, 5, 9}, changes, &counts)->model();
  // Of a sample: the run, 16 for coefficients, twice 10 for times, 4 for the start scale.
  EXPECT_EQ(counts.forwards, 3 * (4 + 16 + 20 + 4));
  EXPECT_EQ(counts.vjps, 0);
  const auto index = torch::tensor(std::vector<int64_t>{0, 5, 9});
  const auto decode = [&](const torch::Tensor& x) {
    return objective_options.decode ? objective_options.decode(x) : x;
  };
  const auto residual = [&](const NsSolver& other) {
    return decode(sample(other, *problem.field, problem.validation.x0.index_select(0, index))) -
           decode(problem.validation.x1.index_select(0, index));
  };
  for (size_t c = 0; c < changes.size(); ++c) {
    const auto moved = [&](double by) {
      NsSolver other = solver;
      const auto step = static_cast<size_t>(changes[c].step);
      if (changes[c].what == Change::What::start_scale) {
        other.start_scale += by;
      } else if (changes[c].what == Change::What::time) {
        other.times[step] += by;
      } else if (changes[c].column == 0) {
        other.a[step] += by;
      } else {
        other.b[step][static_cast<size_t>(changes[c].column - 1)] += by;
      }
      return residual(other);
    };
    const torch::Tensor column = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    for (int64_t s = 0; s < 3; ++s) {
      const double product = (column[s] * residual(solver)[s]).sum().item<double>();
      const double square = column[s].square().sum().item<double>();
      const auto& found = model.samples[static_cast<size_t>(s)];
      EXPECT_NEAR(found.products[c], product, 1e-3 * (std::abs(product) + std::sqrt(square))) << c;
      EXPECT_NEAR(found.gram(c, c), square, 1e-3 * square + 1e-12) << c;
    }
  }
}

TEST(TensorLinearise, ColumnsAreDerivatives) {
  expect_derivatives(small_problem(), {});
  expect_derivatives(small_problem(vp_schedule(), Prediction::noise), {});
  TensorObjectiveOptions in_parts;
  in_parts.device_batch = 5;
  expect_derivatives(small_problem(), in_parts);
}

TEST(TensorLinearise, ColumnsAreDerivativesOfWhatIsDecoded) {
  TensorObjectiveOptions options;
  options.decode = [](const torch::Tensor& x) {
    return (x.slice(1, 0, 4) + 0.1 * x.slice(1, 2, 6)).sinh();
  };
  const Problem problem = small_problem();
  const TensorObjective objective(problem.field, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  Counts counts;
  const LinearModel model =
      objective.linearise(solver, {0}, {{Change::What::coefficient, 0, 0, 1e-6}}, &counts)->model();
  NsSolver up = solver, down = solver;
  up.a[0] += 1e-5;
  down.a[0] -= 1e-5;
  const auto decoded = [&](const NsSolver& s) {
    return options.decode(sample(s, *problem.field, problem.validation.x0.slice(0, 0, 1)));
  };
  const double square = ((decoded(up) - decoded(down)) / 2e-5).square().sum().item<double>();
  EXPECT_NEAR(model.samples[0].gram(0, 0), square, 0.05 * square);  // moved by a hundredth
}

// A network may end in a permutation, and what it returns then has strides of its own.
TEST(TensorLinearise, TakesVelocitiesOfAnyStrides) {
  const Problem problem = small_problem();
  const auto strided = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        return problem.field->velocity(x, t, conditions).t().contiguous().t();
      });
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-3, 0.1);
  Counts counts;
  const LinearModel plain =
      testing::validation_objective(problem).linearise(solver, {0, 1}, changes, &counts)->model();
  const LinearModel same = TensorObjective(strided, problem.validation, {})
                               .linearise(solver, {0, 1}, changes, &counts)
                               ->model();
  EXPECT_EQ(plain.samples[1].products, same.samples[1].products);
}

// Networks in bfloat16, with states in float32.
TEST(TensorLinearise, TakesVelocitiesOfNarrowTypes) {
  const Problem problem = small_problem();
  const Pairs pairs = problem.validation.to(torch::kCPU, torch::kFloat);
  const auto narrow = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        return problem.field->velocity(x.to(torch::kDouble), t, conditions).to(torch::kBFloat16);
      });
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 0.1, 0.2);
  Counts counts;
  const LinearModel wide =
      testing::validation_objective(problem).linearise(solver, {0, 1}, changes, &counts)->model();
  const LinearModel found =
      TensorObjective(narrow, pairs, {}).linearise(solver, {0, 1}, changes, &counts)->model();
  for (size_t c = 0; c < wide.columns(); ++c) {
    // A time moves a velocity by less than eight bits tell.
    if (c < changes.size() && changes[c].what == Change::What::time) continue;
    EXPECT_NEAR(found.samples[1].gram(c, c), wide.samples[1].gram(c, c),
                0.5 * wide.samples[1].gram(c, c))
        << c;
  }
}

// Batches hold whole changes, and no more rows than they may.
TEST(TensorLinearise, KeepsToTheBatch) {
  const Problem problem = small_problem();
  int64_t most = 0;
  const auto watched = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        most = std::max(most, x.size(0));
        return problem.field->velocity(x, t, conditions);
      });
  TensorObjectiveOptions options;
  options.device_batch = 16;
  const TensorObjective objective(watched, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  Counts counts;
  objective.linearise(solver, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, changes_of(solver, 1e-3, 0.1),
                      &counts);
  EXPECT_LE(most, 16);
}

// Finite at the solver's own times alone.
TEST(TensorLinearise, SaysWhereAChangedRunIsNotFinite) {
  const Problem problem = small_problem();
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto fragile = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        const torch::Tensor u = problem.field->velocity(x, t, conditions);
        const auto moved = (t - solver.times[1]).abs().gt(1e-12) & (t - solver.times[2]).lt(-1e-12);
        return torch::where((moved & t.gt(solver.times[0] + 1e-12)).unsqueeze(1),
                            torch::full_like(u, std::nan("")), u);
      });
  const TensorObjective objective(fragile, problem.validation, {});
  Counts counts;
  const auto linearise = [&](int step) {
    objective.linearise(solver, {0}, {{Change::What::time, step, 0, 1e-4}}, &counts);
  };
  EXPECT_NO_THROW(linearise(3));
  for (const int step : {0, 1}) {
    try {
      linearise(step);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::diverged);
      EXPECT_NE(std::string(error.what()).find(fmt::format("after step {} of 4", step + 1)),
                std::string::npos)
          << error.what();
    }
  }
}

// Against the solver it was made for a linearisation says the same again; against another, what the
// other misses by along the same columns: near enough, the gradient there.
TEST(TensorLinearise, LaysTheResidualsOfAnotherSolverAgainstItsColumns) {
  const Problem problem = small_problem();
  TensorObjectiveOptions options;
  options.device_batch = 2;  // in more than one chunk
  const TensorObjective objective(problem.field, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const std::vector<int64_t> samples = {0, 5, 9};
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  Counts counts;
  const auto here = objective.linearise(solver, samples, changes, &counts);
  counts = {};
  const LinearModel same = here->against(solver, &counts);
  EXPECT_EQ(counts.forwards, 0);  // its run is known
  NsSolver other = solver;
  other.b[0][0] *= 1.01;
  const LinearModel moved = here->against(other, &counts);
  EXPECT_EQ(counts.forwards, 3 * solver.nfe());
  const auto there = objective.linearise(other, samples, changes, &counts);
  for (size_t s = 0; s < samples.size(); ++s) {
    const auto& now = there->model().samples[s];
    EXPECT_NEAR(moved.samples[s].squared_error, now.squared_error, 1e-9 * now.squared_error);
    for (size_t c = 0; c < now.products.size(); ++c) {
      const double scale = std::sqrt(now.gram(c, c) * now.squared_error);
      EXPECT_NEAR(same.samples[s].products[c], here->model().samples[s].products[c], 1e-9 * scale);
      EXPECT_NEAR(moved.samples[s].products[c], now.products[c], 0.05 * scale);
      EXPECT_EQ(moved.samples[s].gram(c, c), here->model().samples[s].gram(c, c));
    }
  }
}

// Of several linearisations at once, and one by one where the solver is not finite on some samples.
TEST(TensorLinearise, LaysOneSolverAgainstSeveralLinearisations) {
  const Problem problem = small_problem();
  TensorObjectiveOptions options;
  options.device_batch = 4;  // batches hold samples of both
  const TensorObjective objective(problem.field, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  Counts counts;
  const auto one = objective.linearise(solver, {0, 5, 9}, changes, &counts);
  const auto two = objective.linearise(solver, {7, 2}, changes, &counts);
  NsSolver other = solver;
  other.b[0][0] *= 1.01;
  counts = {};
  const auto found = objective.against(other, {one.get(), two.get()}, &counts);
  EXPECT_EQ(counts.forwards, 5 * solver.nfe());
  ASSERT_EQ(found.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    const LinearModel alone = (k == 0 ? one : two)->against(other, &counts);
    ASSERT_TRUE(found[k].has_value());
    ASSERT_EQ(found[k]->samples.size(), alone.samples.size());
    for (size_t s = 0; s < alone.samples.size(); ++s) {
      const auto& expected = alone.samples[s];
      EXPECT_NEAR(found[k]->samples[s].squared_error, expected.squared_error,
                  1e-12 * expected.squared_error);
      EXPECT_NEAR(found[k]->samples[s].products[0], expected.products[0],
                  1e-9 * std::abs(expected.products[0]) + 1e-12);
    }
  }
  other.b[0][0] = std::numeric_limits<double>::infinity();
  const auto none = objective.against(other, {one.get(), two.get()}, &counts);
  ASSERT_EQ(none.size(), 2u);
  EXPECT_FALSE(none[0] || none[1]);
}

TEST(TensorLinearise, AsksTheModelNothingTwice) {
  const Problem problem = small_problem();
  const TensorObjective objective = testing::validation_objective(problem);
  NsSolver solver = rising_solver(problem.model->schedule());
  Counts counts;
  objective.last_step(solver, {0, 1}, &counts);
  EXPECT_EQ(counts.forwards, 2 * 4);
  // The last step alone is another one: the same velocities, another x_n.
  solver.a.back() += 0.1;
  const LinearModel known = objective.last_step(solver, {0, 1}, &counts);
  EXPECT_EQ(counts.forwards, 2 * 4);
  const LinearModel anew =
      testing::validation_objective(problem).last_step(solver, {0, 1}, &counts);
  EXPECT_NEAR(known.samples[1].squared_error, anew.samples[1].squared_error, 1e-12);
  objective.last_step(solver, {1, 2}, &counts);
  EXPECT_EQ(counts.forwards, 4 * 4 + 2 * 4);
  // A sample alone may be another than beside others: a run that goes on has no others to take it
  // from.
  objective.last_step(solver, {2}, &counts);
  EXPECT_EQ(counts.forwards, 4 * 4 + 3 * 4);
}

void expect_near(const LinearModel& found, const LinearModel& expected) {
  ASSERT_EQ(found.samples.size(), expected.samples.size());
  for (size_t s = 0; s < expected.samples.size(); ++s) {
    const auto& wanted = expected.samples[s];
    EXPECT_NEAR(found.samples[s].squared_error, wanted.squared_error, 1e-10 * wanted.squared_error);
    ASSERT_EQ(found.samples[s].products.size(), wanted.products.size());
    for (size_t c = 0; c < wanted.products.size(); ++c) {
      const double scale = std::sqrt(wanted.gram(c, c) * wanted.squared_error);
      EXPECT_NEAR(found.samples[s].products[c], wanted.products[c], 1e-7 * scale) << c;
    }
  }
}

TensorObjectiveOptions running_ahead() {
  TensorObjectiveOptions options;
  options.runs_ahead = true;
  return options;
}

// One run answers all questions about its samples, as they are answered one by one.
TEST(TensorRunAhead, AnswersWhatIsAskedAboutSomeOfTheSamples) {
  const Problem problem = small_problem(vp_schedule(), Prediction::noise);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  const TensorObjective plain = testing::validation_objective(problem);
  const TensorObjective ahead = testing::validation_objective(problem, running_ahead());
  Counts spent, counts, unused;
  const auto earlier = ahead.linearise(start_like(solver), {20, 21}, changes, &unused);
  const auto same_earlier = plain.linearise(start_like(solver), {20, 21}, changes, &unused);
  ahead.run_ahead({solver}, {5, 9, 0, 21, 20}, &spent);
  EXPECT_EQ(spent.forwards, 5 * 4);
  const auto here = ahead.linearise(solver, {0, 9}, changes, &counts);
  EXPECT_EQ(counts.forwards, 2 * (16 + 20 + 4));  // the changes alone
  expect_near(here->model(), plain.linearise(solver, {0, 9}, changes, &unused)->model());
  counts = {};
  expect_near(ahead.last_step(solver, {9, 5}, &counts), plain.last_step(solver, {9, 5}, &unused));
  const auto found = ahead.against(solver, {earlier.get()}, &counts);
  ASSERT_TRUE(found.front().has_value());
  expect_near(*found.front(), same_earlier->against(solver, &unused));
  NsSolver refitted = solver;  // the same velocities
  refitted.a.back() *= 1.1;
  expect_near(ahead.last_step(refitted, {5, 0}, &counts),
              plain.last_step(refitted, {5, 0}, &unused));
  EXPECT_EQ(counts.forwards, 0);
  ahead.last_step(solver, {5, 6}, &counts);
  EXPECT_EQ(counts.forwards, 2 * 4);
}

TEST(TensorRunAhead, RunsSeveralSolversInOneBatch) {
  const Problem problem = small_problem();
  const NsSolver one = rising_solver(problem.model->schedule()), two = start_like(one);
  int batches = 0;
  const auto counting = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        ++batches;
        EXPECT_EQ(x.size(0), 6);
        return problem.field->velocity(x, t, conditions);
      });
  const TensorObjective ahead(counting, problem.validation, running_ahead());
  const TensorObjective plain = testing::validation_objective(problem);
  Counts counts, unused;
  ahead.run_ahead({one, two}, {1, 2, 3}, &counts);
  EXPECT_EQ(batches, 4);
  EXPECT_EQ(counts.forwards, 2 * 3 * 4);
  for (const NsSolver& solver : {two, one}) {
    expect_near(ahead.last_step(solver, {1, 2, 3}, &counts),
                plain.last_step(solver, {1, 2, 3}, &unused));
  }
  EXPECT_EQ(batches, 4);
  EXPECT_EQ(counts.forwards, 2 * 3 * 4);
}

// What does not fit into a batch is asked about in turn, and so is a solver that is not finite.
TEST(TensorRunAhead, LeavesAloneWhatItCannotRun) {
  const Problem problem = small_problem();
  const NsSolver solver = rising_solver(problem.model->schedule());
  NsSolver broken = solver;
  broken.b[1][0] = std::numeric_limits<double>::infinity();
  TensorObjectiveOptions options = running_ahead();
  options.device_batch = 5;
  const TensorObjective ahead(problem.field, problem.validation, options);
  Counts counts;
  ahead.run_ahead({solver, solver}, {1, 2, 3}, &counts);
  EXPECT_EQ(counts.forwards, 0);
  ahead.run_ahead({solver, broken}, {1, 2}, &counts);
  const int64_t spent = counts.forwards;
  EXPECT_GT(ahead.last_step(solver, {1, 2}, &counts).samples[1].squared_error, 0);
  EXPECT_EQ(counts.forwards, spent);
  EXPECT_THROW(ahead.last_step(broken, {1, 2}, &counts), Error);
}

TEST(TensorRunAhead, AnswersOnCudaAsOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
  const Problem problem = small_problem(vp_schedule(), Prediction::noise);
  const NsSolver solver = rising_solver(problem.model->schedule()), other = start_like(solver);
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  const TensorObjective here = testing::validation_objective(problem);
  const TensorObjective there(problem.field, problem.validation.to(torch::kCUDA, torch::kDouble),
                              running_ahead());
  Counts counts;
  there.run_ahead({solver, other}, {3, 8, 1}, &counts);
  expect_near(there.last_step(other, {1, 8}, &counts), here.last_step(other, {1, 8}, &counts));
  const auto found = there.linearise(solver, {3, 1}, changes, &counts);
  const auto expected = here.linearise(solver, {3, 1}, changes, &counts);
  expect_near(found->model(), expected->model());
  expect_near(found->against(other, &counts), expected->against(other, &counts));
}

// A few iterations from midpoint, with the batches that the model is given counted.
struct Distilled {
  explicit Distilled(TensorObjectiveOptions given) : objective(std::move(given)) {
    options.nfe = 4;
    options.method = Method::direct;
    options.iterations = 4;
    options.direct.batch = 8;
    options.field = {Prediction::velocity, fm_ot_schedule(), 0};
    options.starts = {{"midpoint", testing::start_solver("midpoint", 4)}};
  }

  DistillSummary run(const Problem& problem, DistillState state = {}) {
    const auto counting = function_field(
        [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
          ++batches;
          return problem.field->velocity(x, t, conditions);
        });
    return distill(TensorObjective(counting, problem.training, objective),
                   TensorObjective(counting, problem.validation, objective), options,
                   std::move(state));
  }

  TensorObjectiveOptions objective;
  DistillOptions options;
  int64_t batches = 0;
};

// A distillation finds the same solver, with fewer calls and in fewer batches.
TEST(TensorRunAhead, ChangesNoDistillation) {
  const Problem problem = small_problem();
  Distilled usual({}), ahead(running_ahead());
  const DistillSummary expected = usual.run(problem), found = ahead.run(problem);
  EXPECT_NEAR(found.validation_psnr, expected.validation_psnr, 1e-3);
  EXPECT_LT(found.training.forwards, expected.training.forwards);
  EXPECT_LT(ahead.batches, 0.8 * static_cast<double>(usual.batches));
}

// Also where no last step is refitted, so that errors alone are asked for.
TEST(TensorRunAhead, PaysForNothingTwice) {
  const Problem problem = small_problem();
  Distilled usual({}), ahead(running_ahead());
  for (Distilled* each : {&usual, &ahead}) {
    each->options.family = bst_family(ScaleTimeBase::rk2, 4);
  }
  const DistillSummary expected = usual.run(problem), found = ahead.run(problem);
  EXPECT_NEAR(found.validation_psnr, expected.validation_psnr, 1e-3);
  EXPECT_LT(found.training.forwards, expected.training.forwards);
}

TEST(TensorRunAhead, ARunThatGoesOnCostsWhatAnUnbrokenOneDoes) {
  const Problem problem = small_problem();
  Distilled whole(running_ahead()), broken(running_ahead());
  DistillState kept;
  broken.options.on_iteration = [&](const DistillProgress& progress, const DistillState& state) {
    kept = state;
    return progress.iteration < 2 ? Verdict::go_on : Verdict::stop;
  };
  broken.run(problem);
  broken.options.on_iteration = nullptr;
  const DistillSummary found = broken.run(problem, parse_distill_state(to_json_text(kept), "kept"));
  const DistillSummary expected = whole.run(problem);
  EXPECT_EQ(found.training.forwards, expected.training.forwards);
  EXPECT_NEAR(found.validation_psnr, expected.validation_psnr, 1e-6);
}

TEST(TensorFit, RunsOnTheReferencesOwnTrajectories) {
  for (const auto prediction : {Prediction::velocity, Prediction::noise}) {
    const SchedulePtr schedule = prediction == Prediction::noise ? vp_schedule() : fm_ot_schedule();
    const ModelPtr model = mixture_model(testing::small_mixture(), schedule, prediction);
    ModelDistillOptions options;
    options.nfe = 5;
    options.method = Method::fit;
    options.tolerances = {1e-7, 1e-7};
    const DistillSummary fit = distill(model, options);
    EXPECT_EQ(fit.training.vjps, 0);
    EXPECT_EQ(fit.start.substr(0, 4), "fit/");
    const VelocityField field(model);
    const auto x0 = testing::starting_noise(*model, 48, 9);
    const auto truth = reference(model, x0).x;
    const std::string grid = fit.start.substr(4);
    for (const auto* name : {"dpm++2m", "unipc3-bh2", "ddim"}) {
      const NsSolver usual = make_solver(name, {5, schedule, grid});
      EXPECT_GT(mean_psnr(sample(fit.solver, field, x0), truth),
                mean_psnr(sample(usual, field, x0), truth) + 3)
          << name;
    }
    options.method = Method::direct;
    const DistillSummary direct = distill(model, options);
    EXPECT_GT(mean_psnr(sample(direct.solver, field, x0), truth),
              mean_psnr(sample(fit.solver, field, x0), truth) + 3)
        << direct.brief_report();
  }
}

// A mixture that knows which sample it is asked about, and fails for one of them.
ModelPtr failing_for(int64_t broken) {
  const ModelPtr sound =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);
  const auto f = [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
    const torch::Tensor fails = conditions.at("number").eq(broken).unsqueeze(1);
    return torch::where(fails, torch::full_like(x, std::nan("")), sound->predict(x, t, {}));
  };
  return function_model(Prediction::velocity, fm_ot_schedule(), sound->sample_shape(), f,
                        torch::kDouble);
}

TEST(TensorDistill, LeavesOutASampleThatIsNotFinite) {
  ModelDistillOptions options;
  options.nfe = 4;
  options.iterations = 2;
  options.training_plan.count = 24;
  options.starts = {{"midpoint", testing::start_solver("midpoint", 4)}};
  options.conditions = [](Split split, int64_t begin, int64_t end) -> Conditions {
    return {
        {"number", torch::arange(begin, end, torch::kLong) + (split == Split::train ? 0 : 100)}};
  };
  PairSource source;
  source.seed = options.training_plan.seed;
  source.count = 24;
  source.tolerances = usual_tolerances(options.nfe);
  source.conditions = options.conditions(Split::train, 0, 24);
  Pairs others = make_pairs(failing_for(-1), source);
  const auto rows = torch::cat({torch::arange(7), torch::arange(8, 24)}).to(torch::kLong);
  others = {others.x0.index_select(0, rows), others.x1.index_select(0, rows),
            select(others.conditions, rows), others.evaluations.index_select(0, rows), nullptr};
  std::vector<int64_t> told;
  options.on_left_out = [&](Split split, int64_t pair) {
    EXPECT_EQ(split, Split::train);
    told.push_back(pair);
  };
  const DistillSummary made = distill(failing_for(7), options);
  EXPECT_EQ(told, std::vector<int64_t>{7});
  options.training = others;
  EXPECT_TRUE(distill(failing_for(7), options).solver == made.solver);
  EXPECT_EQ(told.size(), 1u);
  options.training.reset();
  options.starts.clear();
  EXPECT_EQ(distill(failing_for(7), options).start.substr(0, 4), "fit/");
}

}  // namespace
}  // namespace bespoke
