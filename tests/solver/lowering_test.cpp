#include "bespoke/solver/lowering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bespoke/solver/catalogue.h"
#include "plain_field.h"
#include "refusal.h"

namespace bespoke {
namespace {

using testing::Array;
using testing::PlainField;
using testing::relative_error;

constexpr size_t kCount = 3;
const double kMargin = safe_margin(double{std::numeric_limits<float>::epsilon()});

std::vector<Prediction> every_prediction() {
  return {Prediction::velocity, Prediction::noise, Prediction::data,
          Prediction::v,        Prediction::edm,   Prediction::score};
}

// The loop of whoever runs a lowered solver: nothing but the numbers and the function.
template <class Lowered>
Array run_lowered(const Lowered& solver, const std::vector<double>& arguments,
                  const testing::Function& f, const Array& start) {
  Array x = start;
  std::vector<Array> outputs;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    outputs.push_back(f(arguments[i], x));
    x = solver.a[i] * start;
    for (size_t j = 0; j <= i; ++j) x = x + solver.b[i][j] * outputs[j];
  }
  return x;
}

template <class Solver>
double largest_coefficient(const Solver& solver) {
  double largest = 0;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    largest = std::max(largest, std::abs(solver.a[i]));
    for (const double b : solver.b[i]) largest = std::max(largest, std::abs(b));
  }
  return largest;
}

// Where a path begins with hardly any signal, coefficients on noise are large and cancel: no form
// computes better than their rounding.
template <class Lowered>
double tolerance(const NsSolver& solver, const Lowered& lowered) {
  return std::max(1e-12, std::numeric_limits<double>::epsilon() * largest_coefficient(solver) *
                             largest_coefficient(lowered));
}

struct Case {
  SchedulePtr schedule;
  std::string name, grid;
  NsSolver solver;
};

// Solvers of every kind on every path, over the inside of the path and over all of it, with
// evaluations at both ends.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    for (const char* name : {"euler", "heun", "rk4", "ab3", "ddim", "dpm2m", "dpm++2m", "dpm3s",
                             "unipc3-bh2", "deis-t-ab2", "ipndm"}) {
      for (const char* grid : {"uniform-t", "uniform-t:start=0.05,end=0.95", "lambda-range"}) {
        int nfe = 8;
        while (find_solver(name).steps(nfe) == 0) ++nfe;
        list.push_back({schedule, name, grid, make_solver(name, {nfe, schedule, grid})});
      }
    }
    list.push_back({schedule, "edm-heun", "", make_solver("edm-heun", {7, schedule})});
  }
  return list;
}

TEST(Lowering, ComputesTheSameOnEveryPredictionAndPath) {
  const testing::PlainMixture mixture = testing::plain_mixture();
  for (const auto& [schedule, name, grid, solver] : cases()) {
    const Array x0 = testing::starting_noise(*schedule, kCount, mixture.dimension);
    for (const Prediction prediction : every_prediction()) {
      PlainField field = testing::mixture_field(mixture, schedule, prediction);
      field.margin = kMargin;
      const LoweredSolver lowered = lower(solver, prediction, *schedule, kMargin);
      EXPECT_EQ(lowered.prediction, prediction);
      EXPECT_EQ(lowered.nfe(), solver.nfe());
      const Array x = run_lowered(lowered, lowered.times, field.output, lowered.start_scale * x0);
      EXPECT_LT(relative_error(x, testing::run(solver, field, x0)), tolerance(solver, lowered))
          << name << "/" << grid << " on " << schedule->name() << ", " << to_string(prediction);
    }
  }
}

TEST(Lowering, OnVelocitiesIsTheSolverItself) {
  const NsSolver solver = make_solver("dpm++2m", {6, fm_ot_schedule()});
  const LoweredSolver lowered = lower(solver, Prediction::velocity, *fm_ot_schedule(), kMargin);
  EXPECT_EQ(lowered.times, solver.times);
  EXPECT_EQ(lowered.a, solver.a);
  EXPECT_EQ(lowered.b, solver.b);
  EXPECT_EQ(lowered.start_scale, solver.start_scale);
}

// DDIM in its own form: x' = (alpha'/alpha) x + (sigma' - alpha' sigma / alpha) E.
TEST(Lowering, OfDdimHasItsClosedForm) {
  const SchedulePtr vp = vp_schedule();
  const NsSolver solver = make_solver("ddim", {1, vp, "uniform-t:start=0.2,end=0.7"});
  const LoweredSolver lowered = lower(solver, Prediction::noise, *vp, kMargin);
  const double ratio = vp->alpha(0.7) / vp->alpha(0.2);
  EXPECT_NEAR(lowered.a[0], ratio, 1e-13);
  EXPECT_NEAR(lowered.b[0][0], vp->sigma(0.7) - ratio * vp->sigma(0.2), 1e-13);
  EXPECT_NEAR(lowered.sigmas[0], vp->sigma(0.2) / vp->alpha(0.2), 1e-13);
}

TEST(Lowering, MovesEvaluationsOffTheEndsAsTheFieldDoes) {
  const SchedulePtr fm = fm_ot_schedule();
  const NsSolver heun = make_solver("heun", {4, fm});  // evaluates at t = 0 and t = 1
  const LoweredSolver noise = lower(heun, Prediction::noise, *fm, 1e-3);
  EXPECT_EQ(noise.times.front(), safe_velocity_time(Prediction::noise, *fm, 0, 1e-3));
  EXPECT_GT(noise.times.front(), 0);
  EXPECT_EQ(noise.times.back(), 1);
  const LoweredSolver data = lower(heun, Prediction::data, *fm, 1e-3);
  EXPECT_EQ(data.times.front(), 0);
  EXPECT_LT(data.times[3], 1);
  EXPECT_EQ(data.times[4], 1);
}

// What a tool hands to a sampler: D at (y, sigma), with y = x / alpha, or x on a flow path.
testing::Function denoiser(const testing::PlainMixture& mixture, bool flow) {
  return [=](double sigma, const Array& y) {
    return testing::predict(mixture, flow ? 1 - sigma : 1, sigma, y).data;
  };
}

TEST(LoweringToSigmas, ComputesTheSameFromADenoiserAlone) {
  const testing::PlainMixture mixture = testing::plain_mixture();
  for (const auto& [schedule, name, grid, solver] : cases()) {
    const bool flow = is_flow(*schedule);
    if (!flow && schedule->alpha(solver.times.front()) == 0) continue;
    const SigmaSolver lowered = lower_to_sigmas(solver, *schedule, kMargin);
    const auto denoise = denoiser(mixture, flow);
    const auto slope = [&](double sigma, const Array& y) {
      return (y - denoise(sigma, y)) / sigma;
    };
    const Array noise = testing::normal_array(1, kCount, mixture.dimension);
    const Array y = run_lowered(lowered, lowered.sigmas, slope, lowered.start_scale * noise);
    // The reference too knows D alone, so it steps off the same ends.
    PlainField field = testing::mixture_field(mixture, schedule, Prediction::data);
    field.margin = kMargin;
    const Array expected = testing::run(solver, field, schedule->source_std() * noise);
    const double scale = flow ? 1 : schedule->alpha(solver.times.back());
    EXPECT_LT(relative_error(scale * y, expected), tolerance(solver, lowered))
        << name << "/" << grid << " on " << schedule->name();
  }
}

TEST(LoweringToSigmas, OfEulerIsEulerInSigma) {
  const SchedulePtr edm = edm_schedule(80);
  const SigmaSolver lowered = lower_to_sigmas(make_solver("euler", {4, edm}), *edm, kMargin);
  EXPECT_EQ(lowered.sigmas, (std::vector<double>{80, 60, 40, 20, 0}));
  EXPECT_EQ(lowered.start_scale, 80);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lowered.a[i], 1);
    for (size_t j = 0; j <= i; ++j) EXPECT_NEAR(lowered.b[i][j], -20, 1e-12);
  }
  const SchedulePtr fm = fm_ot_schedule();
  const SigmaSolver flow = lower_to_sigmas(make_solver("euler", {4, fm}), *fm, kMargin);
  EXPECT_EQ(flow.sigmas, (std::vector<double>{1, 0.75, 0.5, 0.25, 0}));
  EXPECT_EQ(flow.start_scale, 1);
  EXPECT_NEAR(flow.b[3][2], -0.25, 1e-15);
}

// Noise is scaled to sigmas[0], up to the signal that is left at t = 0.
TEST(LoweringToSigmas, StartsFromTheNoiseToolsStartFrom) {
  const SchedulePtr vp = vp_schedule();
  const SigmaSolver lowered =
      lower_to_sigmas(make_solver("dpm++2m", {6, vp, "lambda-range"}), *vp, kMargin);
  EXPECT_NEAR(lowered.start_scale / lowered.sigmas[0], 1, 1e-4);
}

TEST(LoweringToSigmas, RefusesInfiniteStates) {
  const SchedulePtr cosine = cosine_schedule();
  const std::string message = testing::refusal([&] {
    lower_to_sigmas(make_solver("euler", {4, cosine}), *cosine, kMargin);
  });
  EXPECT_NE(message.find("t = 0, where alpha = 0"), std::string::npos) << message;
  EXPECT_NO_THROW(
      lower_to_sigmas(make_solver("euler", {4, cosine, "lambda-range"}), *cosine, kMargin));
}

TEST(Lowering, FlowsArePathsWhereAlphaAndSigmaSumToOne) {
  EXPECT_TRUE(is_flow(*fm_ot_schedule()));
  for (const char* name : {"cosine", "vp", "edm", "ddpm-linear"}) {
    EXPECT_FALSE(is_flow(*make_schedule(name))) << name;
  }
  EXPECT_FALSE(is_flow(*preconditioned_schedule(fm_ot_schedule(), 2)));
  EXPECT_EQ(tool_sigma(*fm_ot_schedule(), 0.25), 0.75);
  EXPECT_EQ(tool_sigma(*cosine_schedule(), 0), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace bespoke
