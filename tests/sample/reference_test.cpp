#include "bespoke/sample/reference.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "support.h"

namespace bespoke {
namespace {

using testing::relative_error;
using testing::small_mixture;

class LambdaField : public Field {
 public:
  using Function = std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>;
  explicit LambdaField(Function f) : f_(std::move(f)) {}
  torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions&) const override {
    return f_(x, t.reshape({-1, 1}).to(x.scalar_type()));
  }

 private:
  Function f_;
};

ReferenceOptions with_tolerance(double tolerance) {
  ReferenceOptions options;
  options.tolerances = {tolerance, tolerance};
  return options;
}

std::vector<Prediction> all_predictions() {
  return {Prediction::velocity, Prediction::noise, Prediction::data,
          Prediction::v,        Prediction::edm,   Prediction::score};
}

// x(t) of a single Gaussian N(m, s^2): alpha m + (x_0 - alpha_0 m) sqrt(v / v_0).
torch::Tensor gaussian_flow(const Schedule& schedule, const torch::Tensor& x0, double m, double s,
                            double t = 1) {
  const auto variance = [&](double time) {
    return std::pow(schedule.alpha(time) * s, 2) + std::pow(schedule.sigma(time), 2);
  };
  return schedule.alpha(t) * m +
         (x0 - schedule.alpha(0) * m) * std::sqrt(variance(t) / variance(0));
}

TEST(Reference, IntegratesPolynomialsExactly) {
  const LambdaField cubic(
      [](const torch::Tensor& x, const torch::Tensor& t) { return (3 * t * t).expand_as(x); });
  const auto x = integrate_adaptive(cubic, torch::zeros({3, 2}), {}, with_tolerance(1e-6)).x;
  EXPECT_LT((x - 1).abs().max().item<double>(), 1e-14);
  EXPECT_LT(
      (integrate_fixed(cubic, torch::zeros({3, 2}), {}, 0, 1, 1) - 1).abs().max().item<double>(),
      1e-14);
}

TEST(Reference, MeetsItsTolerance) {
  // x' = A x with a rotation and decay: a closed form with oscillation.
  const double w = 12, d = 1;
  const LambdaField spiral([&](const torch::Tensor& x, const torch::Tensor&) {
    const auto p = x.select(1, 0), q = x.select(1, 1);
    return torch::stack({-d * p - w * q, w * p - d * q}, 1);
  });
  const auto x0 = torch::tensor({{1.0, 0.0}, {0.3, -2.0}}, torch::kDouble);
  const double c = std::cos(w) * std::exp(-d), s = std::sin(w) * std::exp(-d);
  const auto exact = torch::stack(
      {c * x0.select(1, 0) - s * x0.select(1, 1), s * x0.select(1, 0) + c * x0.select(1, 1)}, 1);
  double previous_error = 1;
  int64_t previous_cost = 0;
  for (const double tolerance : {1e-3, 1e-5, 1e-7, 1e-9, 1e-11}) {
    const auto result = integrate_adaptive(spiral, x0, {}, with_tolerance(tolerance));
    const double error = (result.x - exact).abs().max().item<double>();
    EXPECT_LT(error, 10 * tolerance);
    EXPECT_LT(error, previous_error);
    EXPECT_GT(result.evaluations.max().item<int64_t>(), previous_cost);
    previous_error = error;
    previous_cost = result.evaluations.max().item<int64_t>();
  }
}

TEST(Reference, ConvergesAtFifthAndEighthOrder) {
  // With the tolerance out of play the error per evaluation shows the order: halving the error by
  // 10^4 costs about 10^(4/5) evaluations for order five.
  const LambdaField field(
      [](const torch::Tensor& x, const torch::Tensor& t) { return torch::cos(20 * t) * x; });
  const auto x0 = torch::ones({1, 1}, torch::kDouble);
  const double exact = std::exp(std::sin(20.0) / 20);
  const auto fixed_error = [&](int steps) {
    return std::abs(integrate_fixed(field, x0, {}, 0, 1, steps).item<double>() - exact);
  };
  EXPECT_GT(std::log2(fixed_error(4) / fixed_error(8)), 7);
  const auto coarse = integrate_adaptive(field, x0, {}, with_tolerance(1e-6));
  const auto fine = integrate_adaptive(field, x0, {}, with_tolerance(1e-11));
  const double cost = fine.evaluations.item<double>() / coarse.evaluations.item<double>();
  EXPECT_NEAR(std::log10(cost), 5 / 5., 0.25);
}

TEST(Reference, FollowsTheGaussianFlowForEveryScheduleAndPrediction) {
  const double m = 0.4, s = 0.3;
  const Mixture gaussian{torch::full({1, 3}, m, torch::kDouble), {s}, {1}, {}};
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    for (const Prediction prediction : all_predictions()) {
      const ModelPtr model = mixture_model(gaussian, schedule, prediction);
      const auto x0 = testing::starting_noise(*model, 5);
      const auto result = reference(model, x0, {}, with_tolerance(1e-8));
      const auto exact = gaussian_flow(*schedule, x0, m, s);
      EXPECT_LT((result.x - exact).abs().max().item<double>(), 3e-7)
          << entry.name << " " << to_string(prediction);
      EXPECT_LT(result.evaluations.max().item<int64_t>(), 3000)
          << entry.name << " " << to_string(prediction);
    }
  }
}

// A path that ends before the data is followed to its end, and one with a final denoising step has
// the data prediction made there.
TEST(Reference, EndsWhereThePathDoes) {
  const double m = 0.4, s = 0.3;
  const Mixture gaussian{torch::full({1, 3}, m, torch::kDouble), {s}, {1}, {}};
  for (const std::string name : {"ve:sigma_min=0.1", "edm:sigma_min=0.1", "vp:start=0.4,end=0.95",
                                 "cosine:start=0.3,end=0.9", "fm-ot:end=0.8"}) {
    for (const Prediction prediction : all_predictions()) {
      const SchedulePtr path = make_schedule(name);
      const ModelPtr model = mixture_model(gaussian, path, prediction);
      const auto x0 = testing::starting_noise(*model, 5);
      EXPECT_LT((reference(model, x0, {}, with_tolerance(1e-8)).x - gaussian_flow(*path, x0, m, s))
                    .abs()
                    .max()
                    .item<double>(),
                3e-7)
          << name << " " << to_string(prediction);

      const SchedulePtr denoised = make_schedule(name + ",denoise=1");
      const ModelPtr other = mixture_model(gaussian, denoised, prediction);
      const double last = denoised->last_time();
      const auto x = gaussian_flow(*denoised, x0, m, s, last);
      const double a = denoised->alpha(last), sigma = denoised->sigma(last);
      const auto data = m + a * s * s / (a * a * s * s + sigma * sigma) * (x - a * m);
      EXPECT_LT(
          (reference(other, x0, {}, with_tolerance(1e-8)).x - data).abs().max().item<double>(),
          3e-7)
          << name << " " << to_string(prediction);
    }
  }
}

TEST(Reference, SinglePrecisionModelsAreAccurateToTheirPrecision) {
  const double m = 0.4, s = 0.3;
  const Mixture gaussian{torch::full({1, 3}, m, torch::kDouble), {s}, {1}, {}};
  for (const auto& name : {"fm-ot", "cosine", "vp", "edm"}) {
    const SchedulePtr schedule = make_schedule(name);
    for (const Prediction prediction : all_predictions()) {
      const ModelPtr model = mixture_model(gaussian, schedule, prediction, torch::kFloat);
      const auto x0 = testing::starting_noise(*model, 5);
      const auto x = reference(model, x0, {}, with_tolerance(1e-7)).x;
      EXPECT_LT((x - gaussian_flow(*schedule, x0, m, s)).abs().max().item<double>(), 3e-6)
          << name << " " << to_string(prediction);
    }
  }
}

TEST(Reference, AgreesWithTheFixedHighOrderRun) {
  for (const auto& name : {"fm-ot", "vp", "cosine"}) {
    for (const Prediction prediction : {Prediction::velocity, Prediction::noise, Prediction::v}) {
      const ModelPtr model = mixture_model(small_mixture(), make_schedule(name), prediction);
      const auto x0 = testing::starting_noise(*model, 4);
      const auto adaptive = reference(model, x0, {}, with_tolerance(1e-9)).x;
      EXPECT_LT(relative_error(adaptive, reference_fixed(model, x0, {}, 200)), 1e-7)
          << name << " " << to_string(prediction);
    }
  }
}

TEST(Reference, PartsOfThePathComposeToTheWhole) {
  const ModelPtr model = mixture_model(small_mixture(), vp_schedule(), Prediction::noise);
  const auto x0 = testing::starting_noise(*model, 4);
  ReferenceOptions first = with_tolerance(1e-9), second = first;
  first.end = 0.6;
  second.start = 0.6;
  const auto parts = reference(model, reference(model, x0, {}, first).x, {}, second).x;
  EXPECT_LT(relative_error(parts, reference(model, x0, {}, with_tolerance(1e-9)).x), 1e-7);
}

TEST(Reference, ASampleDoesNotDependOnItsBatchOrThreads) {
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    const ModelPtr model =
        mixture_model(small_mixture(37, 5, 3), vp_schedule(), Prediction::noise, dtype);
    const auto x0 = testing::starting_noise(*model, 17);
    const Conditions labels = {{"class", torch::arange(17, torch::kLong) % 4}};
    const int threads = at::get_num_threads();
    at::set_num_threads(2);
    const auto all = reference(model, x0, labels, with_tolerance(1e-6));
    at::set_num_threads(1);
    const auto again = reference(model, x0, labels, with_tolerance(1e-6));
    at::set_num_threads(threads);
    EXPECT_TRUE(torch::equal(all.x, again.x));
    for (const int64_t i : {0, 9, 16}) {
      const auto alone =
          reference(model, x0.slice(0, i, i + 1), slice(labels, i, i + 1), with_tolerance(1e-6));
      EXPECT_TRUE(torch::equal(all.x[i], alone.x[0])) << i;
      EXPECT_EQ(all.evaluations[i].item<int64_t>(), alone.evaluations[0].item<int64_t>()) << i;
    }
  }
}

TEST(Reference, CountsEvaluationsPerSampleAndLetsFinishedSamplesGo) {
  // Sample 1 oscillates far faster than sample 0.
  int64_t seen = 0;
  const LambdaField field([&](const torch::Tensor& x, const torch::Tensor& t) {
    seen += x.size(0);
    const auto speed =
        torch::where(x.slice(1, 1, 2) > 0.5, torch::full_like(t, 60.0), torch::full_like(t, 1.0));
    return torch::cat({speed * torch::cos(speed * t), torch::zeros_like(t)}, 1);
  });
  const auto x0 = torch::tensor({{0.0, 0.0}, {0.0, 1.0}}, torch::kDouble);
  const auto result = integrate_adaptive(field, x0, {}, with_tolerance(1e-8));
  EXPECT_GT(result.evaluations[1].item<int64_t>(), 3 * result.evaluations[0].item<int64_t>());
  EXPECT_EQ(result.evaluations.sum().item<int64_t>(), seen);
  EXPECT_NEAR(result.x[1][0].item<double>(), std::sin(60.0), 1e-7);
}

TEST(Reference, SaysWhenItCannotGoOn) {
  const LambdaField broken([](const torch::Tensor& x, const torch::Tensor& t) {
    return torch::where(t > 0.5, torch::full_like(t, std::nan("")), t).expand_as(x);
  });
  try {
    integrate_adaptive(broken, torch::zeros({2, 2}), {}, with_tolerance(1e-6));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::diverged);
    EXPECT_NE(std::string(error.what()).find("t = 0.4999"), std::string::npos) << error.what();
  }
  EXPECT_THROW(integrate_adaptive(broken, torch::zeros({2, 2}), {}, with_tolerance(0)), Error);
  const ModelPtr model = mixture_model(small_mixture(), vp_schedule(), Prediction::noise);
  ReferenceOptions backwards;
  backwards.start = 0.9;
  backwards.end = 0.1;
  EXPECT_THROW(reference(model, normal_noise(1, 0, 1, {6}), {}, backwards), Error);
}

TEST(Reference, ReportsProgressFromZeroToOne) {
  const ModelPtr model = mixture_model(small_mixture(), fm_ot_schedule(), Prediction::velocity);
  double last = 0;
  ReferenceOptions options = with_tolerance(1e-5);
  options.on_progress = [&](double done) {
    EXPECT_GE(done, last);
    last = done;
  };
  reference(model, testing::starting_noise(*model, 8), {}, options);
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace bespoke
