#include "bespoke/model/fields.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace bespoke {
namespace {

using testing::relative_error;
using testing::small_mixture;
using testing::times;

ModelPtr model_of(const SchedulePtr& schedule, Prediction prediction) {
  return mixture_model(small_mixture(), schedule, prediction);
}

TEST(TimeFunction, EvaluatesAndDifferentiates) {
  auto t = torch::tensor({0.1, 0.5, 0.9}, torch::kDouble).requires_grad_();
  const auto y = time_function(t, [](double s) { return exp(2 * Jet::variable(s)); });
  EXPECT_LT(relative_error(y.detach(), (2 * t).exp().detach()), 1e-15);
  y.sum().backward();
  EXPECT_LT(relative_error(t.grad(), (2 * (2 * t).exp()).detach()), 1e-15);
}

TEST(TimeFunction, CallsOnceForOneExpandedTime) {
  int calls = 0;
  auto t = torch::full({1}, 0.25, torch::kDouble).requires_grad_();
  const auto y = time_function(t.expand({100}), [&](double s) {
    ++calls;
    return Jet::variable(s) * Jet::variable(s);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(y.size(0), 100);
  y.sum().backward();
  EXPECT_NEAR(t.grad().item<double>(), 100 * 0.5, 1e-12);
}

TEST(VelocityField, IsTheSameFromEveryPrediction) {
  for (const auto& name : {"fm-ot", "cosine", "vp", "edm", "ddpm-cosine"}) {
    const SchedulePtr schedule = make_schedule(name);
    const auto x = normal_noise(1, 0, 4, {6});
    for (const double t : {0.07, 0.5, 0.93}) {
      const auto expected =
          VelocityField(model_of(schedule, Prediction::velocity)).velocity(x, times(4, t), {});
      for (const auto prediction :
           {Prediction::noise, Prediction::data, Prediction::v, Prediction::edm}) {
        const VelocityField field(model_of(schedule, prediction));
        EXPECT_LT(relative_error(field.velocity(x, times(4, t), {}), expected), 1e-9)
            << name << " " << to_string(prediction) << " " << t;
      }
    }
  }
}

TEST(VelocityField, NoiseAndDataAreSafeAtTheEnds) {
  const auto x = normal_noise(1, 0, 4, {6});
  const auto exact = [&](double t) {
    return VelocityField(model_of(fm_ot_schedule(), Prediction::velocity))
        .velocity(x, times(4, t), {});
  };
  const auto noise = VelocityField(model_of(fm_ot_schedule(), Prediction::noise));
  EXPECT_LT(relative_error(noise.velocity(x, times(4, 0), {}), exact(0)), 1e-6);
  // At t = 1 the state must lie on the data for u to exist; near it, x = D.
  const auto data = VelocityField(model_of(fm_ot_schedule(), Prediction::data));
  EXPECT_TRUE(torch::isfinite(data.velocity(x, times(4, 1), {})).all().item<bool>());
}

TEST(VelocityField, IsFiniteAtBothEndsForEveryScheduleAndPrediction) {
  for (const auto& entry : schedule_registry()) {
    for (const auto prediction : {Prediction::velocity, Prediction::noise, Prediction::data,
                                  Prediction::v, Prediction::edm}) {
      const VelocityField field(model_of(make_schedule(entry.name), prediction));
      for (const double t : {0.0, 1.0}) {
        const auto u = field.velocity(normal_noise(1, 0, 3, {6}), times(3, t), {});
        EXPECT_TRUE(torch::isfinite(u).all().item<bool>())
            << entry.name << " " << to_string(prediction) << " at " << t;
      }
    }
  }
}

TEST(VelocityField, GradientsMatchFiniteDifferences) {
  for (const auto prediction : {Prediction::velocity, Prediction::noise, Prediction::data,
                                Prediction::v, Prediction::edm}) {
    const VelocityField field(model_of(vp_schedule(), prediction));
    const auto x = normal_noise(2, 0, 3, {6}), c = normal_noise(3, 0, 3, {6});
    auto x_leaf = x.clone().requires_grad_();
    auto t_leaf = times(3, 0.4).requires_grad_();
    (field.velocity(x_leaf, t_leaf, {}) * c).sum().backward();
    const auto value = [&](const torch::Tensor& at_x, double t) {
      return (field.velocity(at_x, times(3, t), {}) * c).sum(1);
    };
    const double h = 1e-6;
    EXPECT_LT(relative_error(t_leaf.grad(), (value(x, 0.4 + h) - value(x, 0.4 - h)) / (2 * h)),
              1e-6)
        << to_string(prediction);
    auto step = torch::zeros_like(x);
    step.select(1, 2).fill_(h);
    EXPECT_LT(relative_error(x_leaf.grad().select(1, 2),
                             (value(x + step, 0.4) - value(x - step, 0.4)) / (2 * h)),
              1e-6)
        << to_string(prediction);
  }
}

// Two ways to the same field: through (s, t) on the velocity, and through D and E.
TEST(RescheduledField, IsTheVelocityTransformed) {
  for (const auto& from : {fm_ot_schedule(), cosine_schedule(), vp_schedule()}) {
    for (const auto& to :
         {fm_ot_schedule(), cosine_schedule(), preconditioned_schedule(fm_ot_schedule(), 4)}) {
      const ModelPtr model = model_of(from, Prediction::noise);
      const VelocityField field(model);
      const RescheduledField rescheduled(model, to);
      const auto x = normal_noise(4, 0, 3, {6});
      for (const double r : {0.1, 0.5, 0.9}) {
        const ScaleTimePoint p = schedule_change(from, to)->at(r);
        const auto transformed =
            p.s_dot / p.s * x + p.t_dot * p.s * field.velocity(x / p.s, times(3, p.t), {});
        EXPECT_LT(relative_error(transformed, rescheduled.velocity(x, times(3, r), {})), 1e-10)
            << from->name() << " to " << to->name();
      }
    }
  }
}

TEST(RescheduledField, IsTheModelOfTheOtherSchedule) {
  // The same data distribution on another path has the same D and E at equal snr.
  const ModelPtr vp = model_of(vp_schedule(), Prediction::noise);
  const VelocityField cosine(model_of(cosine_schedule(), Prediction::velocity));
  const RescheduledField moved(vp, cosine_schedule());
  const auto x = normal_noise(5, 0, 3, {6});
  for (const double r : {0.2, 0.6, 0.95, 1.0}) {
    EXPECT_LT(
        relative_error(moved.velocity(x, times(3, r), {}), cosine.velocity(x, times(3, r), {})),
        1e-9)
        << r;
  }
}

}  // namespace
}  // namespace bespoke
