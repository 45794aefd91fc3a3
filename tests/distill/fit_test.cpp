// The fit on problems whose trajectories are known in closed form.

#include "bespoke/distill/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/distill/distill.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::plain_samples;

constexpr char kRange[] = "lambda-range:from=-2.5,to=4";

double loss_of(const Samples& samples, const NsSolver& solver) {
  Counts counts;
  return detail::mean(samples.log_errors(solver, first_samples(samples), &counts));
}

TEST(Fit, BeatsTheCatalogueOnItsOwnTimes) {
  for (const auto& schedule : {fm_ot_schedule(), cosine_schedule(), vp_schedule()}) {
    const Samples training = plain_samples(testing::plain_mixture(), schedule, 48, 1);
    const Samples held_out = plain_samples(testing::plain_mixture(), schedule, 48, 2);
    const auto times = make_grid(kRange, 6, *schedule);
    Counts counts;
    const FittedSolver fitted = fit_solver(training, first_samples(training), times, {}, &counts);
    EXPECT_EQ(counts.forwards, 48 * 6);
    EXPECT_EQ(counts.vjps, 0);
    EXPECT_NO_THROW(fitted.solver.validate());
    EXPECT_NEAR(fitted.loss, loss_of(training, fitted.solver), 1e-6);
    for (const auto* name : {"ddim", "dpm++2m", "unipc3-bh2"}) {
      const NsSolver usual = make_solver(name, {6, schedule, kRange});
      EXPECT_LT(loss_of(held_out, fitted.solver), loss_of(held_out, usual) - 1)
          << name << " on " << schedule->name();
    }
  }
}

// All of a single Gaussian's velocities are multiples of x_0: every matrix is singular, and yet any
// solver of them can be exact.
TEST(Fit, SolvesSingularStepsExactly) {
  const auto gaussian = testing::plain_mixture({6, 1, 7, 0.0, 0.3, 0.3});
  const Samples samples = plain_samples(gaussian, fm_ot_schedule(), 8, 1);
  Counts counts;
  const FittedSolver fitted = fit_solver(samples, first_samples(samples),
                                         make_grid(kRange, 4, *fm_ot_schedule()), {}, &counts);
  EXPECT_LT(fitted.loss, -20);
}

// A family has no times as near to 0 as some automatic grids do: steps are fitted where they are
// evaluated.
TEST(Fit, IsToTheTimesThatTheSolverHas) {
  const auto mixture = testing::plain_mixture({6, 3, 7, 1.2, 0.2, 0.2});
  const Samples training = plain_samples(mixture, fm_ot_schedule(), 48, 1);
  DistillOptions options;
  options.nfe = 4;
  options.method = Method::fit;
  options.fit.samples = 48;
  options.field.schedule = fm_ot_schedule();
  const NsSolver solver = distill(training, training, options).solver;
  Counts counts;
  const FittedSolver again =
      fit_solver(training, first_samples(training), solver.times, options.fit.fit, &counts);
  EXPECT_NEAR(loss_of(training, solver), again.loss, 1e-6);
}

// A sample whose trajectory no step can follow changes the others' steps little.
TEST(Fit, LetsNoHardSampleRule) {
  const auto model_of = [](double outlier) {
    LinearModel model;
    for (int k = 0; k < 5; ++k) {
      // Residuals -2 along one column: every sample asks for a change of 2, but one.
      const double wanted = k == 0 ? outlier : 2;
      LinearModel::Sample sample{wanted * wanted + 1e-4, {-wanted}, Matrix(1, 1)};
      sample.gram(0, 0) = 1;
      model.samples.push_back(sample);
    }
    return model;
  };
  EXPECT_NEAR(balanced_change(model_of(2), 0.05)[0], 2, 1e-9);
  EXPECT_NEAR(least_squares_change(model_of(12))[0], 4, 1e-8);
  EXPECT_NEAR(balanced_change(model_of(12), 0.05)[0], 2, 0.1);
  LinearModel alone = model_of(12);
  alone.samples.resize(1);
  EXPECT_NEAR(balanced_change(alone, 0.05)[0], 12, 1e-8);
}

// It costs nothing, and tells what the loss on the samples themselves does not.
TEST(Fit, SaysWhatSamplesItHasNotSeenAreMissedBy) {
  const auto mixture = testing::plain_mixture({24, 4, 7, 0.6, 0.2, 0.5});
  const Samples samples = plain_samples(mixture, fm_ot_schedule(), 3, 1);
  const Samples unseen = plain_samples(mixture, fm_ot_schedule(), 64, 2);
  Counts counts;
  const FittedSolver fitted = fit_solver(samples, first_samples(samples),
                                         make_grid(kRange, 6, *fm_ot_schedule()), {}, &counts);
  const double told = left_out_loss(fitted, 0.05), true_loss = loss_of(unseen, fitted.solver);
  EXPECT_GT(true_loss, fitted.loss + 0.5);
  EXPECT_LT(std::abs(told - true_loss), std::abs(fitted.loss - true_loss));
}

TEST(Fit, KeepsTheStartScaleAtOneWhereAsked) {
  const Samples samples = plain_samples(testing::plain_mixture(), fm_ot_schedule(), 32, 1);
  const auto times = make_grid(kRange, 5, *fm_ot_schedule());
  Counts counts;
  FitOptions options;
  EXPECT_NE(fit_solver(samples, first_samples(samples), times, options, &counts).solver.start_scale,
            1);
  options.free_start_scale = false;
  EXPECT_EQ(fit_solver(samples, first_samples(samples), times, options, &counts).solver.start_scale,
            1);
}

TEST(Fit, RefusesStartsAndOtherFamilies) {
  DistillOptions options;
  options.field.schedule = fm_ot_schedule();
  options.method = Method::fit;
  EXPECT_NO_THROW(options.validate());
  options.family = bst_family(ScaleTimeBase::rk2, 8);
  EXPECT_THROW(options.validate(), Error);
  options.family = nullptr;
  options.starts = {{"euler", make_solver("euler", {8, fm_ot_schedule()})}};
  EXPECT_THROW(options.validate(), Error);
}

// Trajectories are large, so they may be known of fewer samples than there are.
TEST(Fit, ReadsOnlyTrajectoriesThatAreKnown) {
  const auto training_of = [](int64_t trajectories) {
    testing::PlainSamplesOptions options;
    options.trajectories = trajectories;
    return plain_samples(testing::plain_mixture(), fm_ot_schedule(), 32, 1, options);
  };
  const Samples validation = plain_samples(testing::plain_mixture(), fm_ot_schedule(), 16, 2);
  DistillOptions options;
  options.nfe = 4;
  options.field.schedule = fm_ot_schedule();
  options.method = Method::fit;
  options.fit.samples = 5;
  const NsSolver of_five = distill(training_of(32), validation, options).solver;
  options.fit.samples = 16;
  EXPECT_TRUE(distill(training_of(5), validation, options).solver == of_five);
  EXPECT_THROW(distill(training_of(0), validation, options), Error);
}

TEST(Fit, SaysHowManySamplesItNeeds) {
  const Samples samples = plain_samples(testing::plain_mixture(), fm_ot_schedule(), 8, 1);
  Counts counts;
  try {
    fit_solver(samples, {0}, make_grid(kRange, 12, *fm_ot_schedule()), {}, &counts);
    FAIL() << "13 unknowns were fitted to 6 numbers";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("at least 3 samples"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace bespoke
