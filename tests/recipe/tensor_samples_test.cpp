// What the fit and the direct method ask of samples, against differences and closed forms.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/fit.h"
#include "bespoke/model/function_model.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/errors.h"
#include "problem.h"

namespace bespoke {
namespace {

using testing::columns_at;
using testing::last_step_at;
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
void expect_derivatives(const Problem& problem, const TensorSamplesOptions& own) {
  const Samples samples = tensor_samples(problem.field, problem.validation, own);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  Counts counts;
  const LinearModel model = columns_at(samples, solver, {0, 5, 9}, changes, &counts).model;
  // Of a sample: the run, 16 for coefficients, twice 10 for times, 4 for the start scale.
  EXPECT_EQ(counts.forwards, 3 * (4 + 16 + 20 + 4));
  EXPECT_EQ(counts.vjps, 0);
  const auto index = torch::tensor(std::vector<int64_t>{0, 5, 9});
  const auto decode = [&](const torch::Tensor& x) { return own.decode ? own.decode(x) : x; };
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

TEST(TensorColumns, ColumnsAreDerivatives) {
  expect_derivatives(small_problem(), {});
  expect_derivatives(small_problem(vp_schedule(), Prediction::noise), {});
  TensorSamplesOptions in_parts;
  in_parts.device_batch = 5;
  expect_derivatives(small_problem(), in_parts);
}

TEST(TensorColumns, ColumnsAreDerivativesOfWhatIsDecoded) {
  TensorSamplesOptions options;
  options.decode = [](const torch::Tensor& x) {
    return (x.slice(1, 0, 4) + 0.1 * x.slice(1, 2, 6)).sinh();
  };
  const Problem problem = small_problem();
  const Samples samples = tensor_samples(problem.field, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  Counts counts;
  const LinearModel model =
      columns_at(samples, solver, {0}, {{Change::What::coefficient, 0, 0, 1e-6}}, &counts).model;
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
TEST(TensorColumns, TakesVelocitiesOfAnyStrides) {
  const Problem problem = small_problem();
  const auto strided = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        return problem.field->velocity(x, t, conditions).t().contiguous().t();
      });
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-3, 0.1);
  Counts counts;
  const LinearModel plain =
      columns_at(testing::validation_samples(problem), solver, {0, 1}, changes, &counts).model;
  const LinearModel same =
      columns_at(tensor_samples(strided, problem.validation), solver, {0, 1}, changes, &counts)
          .model;
  EXPECT_EQ(plain.samples[1].products, same.samples[1].products);
}

// Networks in bfloat16, with states in float32.
TEST(TensorColumns, TakesVelocitiesOfNarrowTypes) {
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
      columns_at(testing::validation_samples(problem), solver, {0, 1}, changes, &counts).model;
  const LinearModel found =
      columns_at(tensor_samples(narrow, pairs), solver, {0, 1}, changes, &counts).model;
  for (size_t c = 0; c < wide.columns(); ++c) {
    // A time moves a velocity by less than eight bits tell.
    if (c < changes.size() && changes[c].what == Change::What::time) continue;
    EXPECT_NEAR(found.samples[1].gram(c, c), wide.samples[1].gram(c, c),
                0.5 * wide.samples[1].gram(c, c))
        << c;
  }
}

// Batches hold whole changes, and no more rows than they may.
TEST(TensorColumns, KeepsToTheBatch) {
  const Problem problem = small_problem();
  int64_t most = 0;
  const auto watched = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        most = std::max(most, x.size(0));
        return problem.field->velocity(x, t, conditions);
      });
  TensorSamplesOptions options;
  options.device_batch = 16;
  const Samples samples = tensor_samples(watched, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  Counts counts;
  columns_at(samples, solver, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, changes_of(solver, 1e-3, 0.1),
             &counts);
  EXPECT_LE(most, 16);
}

// Finite at the solver's own times alone.
TEST(TensorColumns, SaysWhereAChangedRunIsNotFinite) {
  const Problem problem = small_problem();
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto fragile = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        const torch::Tensor u = problem.field->velocity(x, t, conditions);
        const auto moved = (t - solver.times[1]).abs().gt(1e-12) & (t - solver.times[2]).lt(-1e-12);
        return torch::where((moved & t.gt(solver.times[0] + 1e-12)).unsqueeze(1),
                            torch::full_like(u, std::nan("")), u);
      });
  const Samples samples = tensor_samples(fragile, problem.validation, {});
  Counts counts;
  const auto linearise = [&](int step) {
    columns_at(samples, solver, {0}, {{Change::What::time, step, 0, 1e-4}}, &counts);
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

// Against the runs they were taken at, columns say the same again; against those of another solver,
// what that misses by along them: near enough, the gradient there.
TEST(TensorColumns, AreLaidAgainstTheResidualsOfAnotherSolver) {
  const Problem problem = small_problem();
  TensorSamplesOptions options;
  options.device_batch = 2;  // in more than one batch
  const Samples samples = tensor_samples(problem.field, problem.validation, options);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const std::vector<int64_t> subset = {0, 5, 9};
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  Counts counts;
  const Runs runs = samples.run(solver, subset, &counts);
  const Columns here = samples.columns(runs, changes, &counts);
  const LinearModel same = samples.against(here, runs);
  NsSolver other = solver;
  other.b[0][0] *= 1.01;
  counts = {};
  const LinearModel moved = samples.against(here, samples.run(other, subset, &counts, Keep::end));
  EXPECT_EQ(counts.forwards, 3 * solver.nfe());
  const Columns there = columns_at(samples, other, subset, changes, &counts);
  for (size_t s = 0; s < subset.size(); ++s) {
    const auto& now = there.model.samples[s];
    EXPECT_NEAR(moved.samples[s].squared_error, now.squared_error, 1e-9 * now.squared_error);
    for (size_t c = 0; c < now.products.size(); ++c) {
      const double scale = std::sqrt(now.gram(c, c) * now.squared_error);
      EXPECT_NEAR(same.samples[s].products[c], here.model.samples[s].products[c], 1e-9 * scale);
      EXPECT_NEAR(moved.samples[s].products[c], now.products[c], 0.05 * scale);
      EXPECT_EQ(moved.samples[s].gram(c, c), here.model.samples[s].gram(c, c));
    }
  }
}

// The ends of several sets in one run, and set by set where the solver is not finite on one.
TEST(TensorRuns, EndSetBySet) {
  const Problem problem = small_problem();
  TensorSamplesOptions options;
  options.device_batch = 4;  // batches hold samples of both
  const Samples samples = tensor_samples(problem.field, problem.validation, options);
  NsSolver solver = rising_solver(problem.model->schedule());
  const std::vector<std::vector<int64_t>> sets = {{0, 5, 9}, {7, 2}};
  Counts counts;
  const auto ends = samples.run_ends(solver, sets, &counts);
  EXPECT_EQ(counts.forwards, 5 * solver.nfe());
  for (size_t k = 0; k < sets.size(); ++k) {
    ASSERT_TRUE(ends[k].has_value());
    const auto found = samples.log_errors(*ends[k]);
    const auto alone = samples.log_errors(solver, sets[k], &counts);
    ASSERT_EQ(found.size(), alone.size());
    for (size_t s = 0; s < alone.size(); ++s) EXPECT_NEAR(found[s], alone[s], 1e-9);
  }
  solver.b[0][0] = std::numeric_limits<double>::infinity();
  const auto none = samples.run_ends(solver, sets, &counts);
  ASSERT_EQ(none.size(), 2u);
  EXPECT_FALSE(none[0] || none[1]);
}

// The last step alone is another one: the same velocities, another x_n, and nothing is evaluated.
TEST(TensorRuns, TakeAnotherLastStep) {
  const Problem problem = small_problem();
  const Samples samples = testing::validation_samples(problem);
  NsSolver solver = rising_solver(problem.model->schedule());
  Counts counts;
  const Runs runs = samples.run(solver, {0, 1}, &counts);
  EXPECT_EQ(counts.forwards, 2 * 4);
  solver.a.back() += 0.1;
  const LinearModel found = samples.last_step(samples.with_last_step(runs, solver));
  const LinearModel anew = last_step_at(samples, solver, {0, 1}, &counts);
  EXPECT_NEAR(found.samples[1].squared_error, anew.samples[1].squared_error, 1e-12);
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

TensorSamplesOptions joining_runs() {
  TensorSamplesOptions options;
  options.joins_runs = true;
  return options;
}

// Sets that share samples are run once, and each has what it would have had alone.
TEST(TensorJoinedRuns, AnswerForEverySet) {
  const Problem problem = small_problem(vp_schedule(), Prediction::noise);
  const NsSolver solver = rising_solver(problem.model->schedule());
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  const Samples plain = testing::validation_samples(problem);
  const Samples joined = testing::validation_samples(problem, joining_runs());
  const std::vector<std::vector<int64_t>> sets = {{5, 9, 0}, {0, 9}, {21, 20}};
  Counts spent, counts, unused;
  const auto runs = joined.run_sets(solver, sets, &spent);
  EXPECT_EQ(spent.forwards, 5 * 4);
  const Columns found = joined.columns(*runs[1], changes, &counts);
  EXPECT_EQ(counts.forwards, 2 * (16 + 20 + 4));  // the changes alone
  expect_near(found.model, columns_at(plain, solver, sets[1], changes, &unused).model);
  for (size_t k = 0; k < sets.size(); ++k) {
    expect_near(joined.last_step(*runs[k]), last_step_at(plain, solver, sets[k], &unused));
  }
  const Columns earlier = columns_at(plain, start_like(solver), sets[2], changes, &unused);
  expect_near(joined.against(earlier, *runs[2]),
              plain.against(earlier, plain.run(solver, sets[2], &unused)));
  // One by one where they do not fit, or are not to be joined.
  spent = {};
  plain.run_sets(solver, sets, &spent);
  EXPECT_EQ(spent.forwards, 7 * 4);
}

TEST(TensorJoinedRuns, RunSeveralSolversInOneBatch) {
  const Problem problem = small_problem();
  const NsSolver one = rising_solver(problem.model->schedule()), two = start_like(one);
  int batches = 0;
  const auto counting = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        ++batches;
        EXPECT_EQ(x.size(0), 6);
        return problem.field->velocity(x, t, conditions);
      });
  const Samples joined = tensor_samples(counting, problem.validation, joining_runs());
  const Samples plain = testing::validation_samples(problem);
  Counts counts, unused;
  const auto runs = joined.run_each({one, two}, {1, 2, 3}, &counts);
  EXPECT_EQ(batches, 4);
  EXPECT_EQ(counts.forwards, 2 * 3 * 4);
  expect_near(joined.last_step(*runs[0]), last_step_at(plain, one, {1, 2, 3}, &unused));
  expect_near(joined.last_step(*runs[1]), last_step_at(plain, two, {1, 2, 3}, &unused));
}

// What does not fit into a batch is run in turn, and a solver that is not finite spoils no other.
TEST(TensorJoinedRuns, LeaveAloneWhatTheyCannotJoin) {
  const Problem problem = small_problem();
  const NsSolver solver = rising_solver(problem.model->schedule());
  NsSolver broken = solver;
  broken.b[1][0] = std::numeric_limits<double>::infinity();
  int64_t most = 0;
  const auto watched = function_field(
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        most = std::max(most, x.size(0));
        return problem.field->velocity(x, t, conditions);
      });
  TensorSamplesOptions options = joining_runs();
  options.device_batch = 5;
  const Samples joined = tensor_samples(watched, problem.validation, options);
  Counts counts;
  joined.run_each({solver, solver}, {1, 2, 3}, &counts);
  EXPECT_EQ(most, 3);
  const auto runs = joined.run_each({solver, broken}, {1, 2}, &counts);
  EXPECT_EQ(most, 4);
  ASSERT_TRUE(runs[0].has_value());
  EXPECT_FALSE(runs[1].has_value());
  EXPECT_GT(joined.last_step(*runs[0]).samples[1].squared_error, 0);
}

TEST(TensorJoinedRuns, AnswerOnCudaAsOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
  const Problem problem = small_problem(vp_schedule(), Prediction::noise);
  const NsSolver solver = rising_solver(problem.model->schedule()), other = start_like(solver);
  const auto changes = changes_of(solver, 1e-6, 1e-5);
  const Samples here = testing::validation_samples(problem);
  const Samples there = tensor_samples(
      problem.field, problem.validation.to(torch::kCUDA, torch::kDouble), joining_runs());
  Counts counts;
  const auto runs = there.run_each({solver, other}, {3, 8, 1}, &counts);
  expect_near(there.last_step(*runs[1]), last_step_at(here, other, {3, 8, 1}, &counts));
  const Columns found = there.columns(*runs[0], changes, &counts);
  const Columns expected = columns_at(here, solver, {3, 8, 1}, changes, &counts);
  expect_near(found.model, expected.model);
  expect_near(there.against(found, *runs[1]),
              here.against(expected, here.run(other, {3, 8, 1}, &counts)));
}

// A few iterations from midpoint, with the batches that the model is given counted.
struct Distilled {
  explicit Distilled(TensorSamplesOptions given) : evaluation(std::move(given)) {
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
    return distill(tensor_samples(counting, problem.training, evaluation),
                   tensor_samples(counting, problem.validation, evaluation), options,
                   std::move(state));
  }

  TensorSamplesOptions evaluation;
  DistillOptions options;
  int64_t batches = 0;
};

// A distillation finds the same solver, with fewer calls and in fewer batches.
TEST(TensorJoinedRuns, ChangesNoDistillation) {
  const Problem problem = small_problem();
  Distilled usual({}), joined(joining_runs());
  const DistillSummary expected = usual.run(problem), found = joined.run(problem);
  EXPECT_NEAR(found.validation_psnr, expected.validation_psnr, 1e-3);
  EXPECT_LT(found.training.forwards, expected.training.forwards);
  EXPECT_LT(joined.batches, 0.8 * static_cast<double>(usual.batches));
}

// Also where no last step is refitted, so that errors alone are asked for.
TEST(TensorJoinedRuns, PaysForNothingTwice) {
  const Problem problem = small_problem();
  Distilled usual({}), joined(joining_runs());
  for (Distilled* each : {&usual, &joined}) {
    each->options.family = bst_family(ScaleTimeBase::rk2, 4);
  }
  const DistillSummary expected = usual.run(problem), found = joined.run(problem);
  EXPECT_NEAR(found.validation_psnr, expected.validation_psnr, 1e-3);
  EXPECT_LT(found.training.forwards, expected.training.forwards);
}

TEST(TensorJoinedRuns, ARunThatGoesOnCostsWhatAnUnbrokenOneDoes) {
  const Problem problem = small_problem();
  Distilled whole(joining_runs()), broken(joining_runs());
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
