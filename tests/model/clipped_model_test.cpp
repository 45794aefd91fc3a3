#include "bespoke/model/clipped_model.h"

#include <gtest/gtest.h>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/sample/reference.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "refusal.h"
#include "support.h"

namespace bespoke {
namespace {

using testing::relative_error;
using testing::times;

constexpr Clip kTight = {-0.25, 0.3};

ModelPtr mixture_of(Prediction prediction, const SchedulePtr& schedule = vp_schedule()) {
  return mixture_model(testing::small_mixture(), schedule, prediction);
}

TEST(ClippedModel, ClipsToARange) {
  const auto data = torch::tensor({{-2.0, 0.1, 0.5}}, torch::kDouble);
  EXPECT_TRUE(
      torch::equal(clipped(data, kTight), torch::tensor({{-0.25, 0.1, 0.3}}, torch::kDouble)));
}

// Each sample by the quantile of its own magnitudes, linear between two of them.
TEST(ClippedModel, ThresholdsDynamically) {
  const auto data =
      torch::tensor({{-4.0, 1.0, 2.0, 0.0, 3.0}, {0.1, -0.2, 0.3, 0.4, 0.5}}, torch::kDouble);
  // The magnitudes 0 1 2 3 4 at 0.8625: 3.45.
  const auto first = torch::tensor({-3.45, 1.0, 2.0, 0.0, 3.0}, torch::kDouble) / 3.45;
  const auto found = clipped(data, {-1, 1, 0.8625, 10});
  EXPECT_LT(relative_error(found[0], first), 1e-14);
  EXPECT_TRUE(torch::equal(found[1], data[1]));  // never stretched
  const auto capped = clipped(data, {-1, 1, 0.8625, 2});
  EXPECT_LT(relative_error(capped[0], data[0].clamp(-2, 2) / 2), 1e-14);
}

// u = alpha' D + sigma' E with the clipped D, and E what is left of x: whatever the model predicts.
TEST(ClippedModel, TheFieldIsThatOfTheClippedData) {
  const SchedulePtr path = vp_schedule();
  const auto x = normal_noise(1, 0, 4, {6});
  for (const double t : {0.1, 0.5, 0.9}) {
    const SchedulePoint p = path->at(t);
    const auto data = mixture_of(Prediction::data)->predict(x, times(4, t), {}).clamp(-0.25, 0.3);
    const auto u = p.alpha_dot * data + p.sigma_dot * (x - p.alpha * data) / p.sigma;
    for (const auto& name : prediction_names()) {
      const ModelPtr model = clipped_model(mixture_of(parse_prediction(name)), kTight);
      EXPECT_EQ(model->prediction(), Prediction::data);
      EXPECT_LT(relative_error(VelocityField(model).velocity(x, times(4, t), {}), u), 1e-9)
          << name << " " << t;
    }
  }
}

TEST(ClippedModel, TheReferenceAndLoweredSolversAreOfTheClippedField) {
  const SchedulePtr path = fm_ot_schedule();
  const ModelPtr model = clipped_model(mixture_of(Prediction::noise, path), kTight);
  const auto x0 = testing::starting_noise(*model, 5);
  ReferenceOptions options;
  options.tolerances = {1e-7, 1e-7};
  const auto x = reference(model, x0, {}, options).x;
  EXPECT_LE(x.max().item<double>(), 0.3 + 1e-6);
  EXPECT_GE(x.min().item<double>(), -0.25 - 1e-6);
  const auto plain = reference(mixture_of(Prediction::noise, path), x0, {}, options).x;
  EXPECT_GT(relative_error(x, plain), 0.1);
  const NsSolver many = make_solver("dpm++2m", {400, path, "lambda-range:from=-7,to=9"});
  EXPECT_LT(relative_error(sample(many, VelocityField(model), x0), x), 5e-3);
  const NsSolver few = make_solver("dpm++2m", {6, path, "lambda-range"});
  const SolverOnField run = on_outputs(few, model);
  EXPECT_LT(
      relative_error(sample(run.solver, *run.field, x0), sample(few, VelocityField(model), x0)),
      1e-9);
}

// What is clipped is the guided prediction, whichever of the two is asked for first.
TEST(ClippedModel, GuidesBeforeItClips) {
  const ModelPtr model =
      mixture_model(testing::small_mixture(6, 4, 2), vp_schedule(), Prediction::noise);
  const Conditions null = {{"class", torch::full({1}, 2, torch::kLong)}};
  const Conditions given = {{"class", torch::tensor({0, 1, 1}, torch::kLong)}};
  const auto x = normal_noise(1, 0, 3, {6});
  const ModelPtr clip_then_guide = guided_model(clipped_model(model, kTight), 3.0, null);
  const ModelPtr guide_then_clip = clipped_model(guided_model(model, 3.0, null), kTight);
  const auto found = clip_then_guide->predict(x, times(3, 0.6), given);
  EXPECT_TRUE(torch::equal(found, guide_then_clip->predict(x, times(3, 0.6), given)));
  EXPECT_LE(found.max().item<double>(), 0.3);
  EXPECT_NE(testing::refusal([&] {
              clip_then_guide->predict_parts(x, times(3, 0.6), given, true);
            }).find("\"clip\""),
            std::string::npos);
}

// Where alpha = 0 a noise prediction says nothing of the data; the clipped field is finite there.
TEST(ClippedModel, IsFiniteAtBothEnds) {
  for (const auto& entry : schedule_registry()) {
    for (const auto& name : prediction_names()) {
      const ModelPtr model =
          clipped_model(mixture_of(parse_prediction(name), make_schedule(entry.name)), kTight);
      for (const double t : {0.0, 1.0}) {
        const auto u = VelocityField(model).velocity(normal_noise(1, 0, 3, {6}), times(3, t), {});
        EXPECT_TRUE(torch::isfinite(u).all().item<bool>()) << entry.name << " " << name << " " << t;
      }
    }
  }
}

TEST(ClippedModel, GradientsMatchFiniteDifferences) {
  for (const Clip& clip : {kTight, Clip{-0.2, 0.2, 0.7, 5}}) {
    const VelocityField field(clipped_model(mixture_of(Prediction::noise), clip));
    const auto x = normal_noise(2, 0, 3, {6}), c = normal_noise(3, 0, 3, {6});
    auto leaf = x.clone().requires_grad_();
    auto t = times(3, 0.6).requires_grad_();
    (field.velocity(leaf, t, {}) * c).sum().backward();
    const double h = 1e-6;
    const auto value = [&](double step, double later) {
      return (field.velocity(x + step * c, times(3, 0.6 + later), {}) * c).sum(1);
    };
    const auto along = (value(h, 0) - value(-h, 0)) / (2 * h);
    EXPECT_LT(relative_error((leaf.grad() * c).sum(1), along), 1e-5);
    EXPECT_LT(relative_error(t.grad(), (value(0, h) - value(0, -h)) / (2 * h)), 1e-5);
  }
}

}  // namespace
}  // namespace bespoke
