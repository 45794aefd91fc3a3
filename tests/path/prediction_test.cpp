#include "bespoke/path/prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

std::vector<Prediction> all_predictions() {
  return {Prediction::velocity, Prediction::noise, Prediction::data,
          Prediction::v,        Prediction::edm,   Prediction::score};
}

double apply(const Affine<double>& a, double x, double f) { return a.state * x + a.output * f; }

// From known D and E, through each prediction and back.
void expect_round_trip(const Schedule& schedule, Prediction prediction, double t,
                       double tolerance) {
  const double data = 0.7, noise = -1.3;
  const SchedulePoint p = schedule.at(t);
  const double x = p.alpha * data + p.sigma * noise;
  const auto weights = output_in_terms_of_data_and_noise(prediction, p);
  const double f = weights.data * data + weights.noise * noise;
  EXPECT_NEAR(apply(data_from(prediction, p), x, f), data, tolerance)
      << schedule.name() << " " << to_string(prediction) << " t = " << t;
  EXPECT_NEAR(apply(noise_from(prediction, p), x, f), noise, tolerance)
      << schedule.name() << " " << to_string(prediction) << " t = " << t;
  const double u = p.alpha_dot * data + p.sigma_dot * noise;
  if (std::isfinite(u)) {
    EXPECT_NEAR(apply(velocity_from(prediction, p), x, f), u, tolerance * (1 + std::abs(u)))
        << schedule.name() << " " << to_string(prediction) << " t = " << t;
  }
}

TEST(Prediction, RoundTripsInsideThePath) {
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    for (const Prediction prediction : all_predictions()) {
      for (const double t : {0.05, 0.3, 0.6, 0.95}) {
        expect_round_trip(*schedule, prediction, t, 1e-9);
      }
    }
  }
}

TEST(Prediction, RoundTripsAtAndNearBothEnds) {
  const double margin = safe_margin(std::numeric_limits<double>::epsilon());
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    for (const Prediction prediction : all_predictions()) {
      for (const double t : {0.0, 1e-12, 1e-6, 1 - 1e-6, 1 - 1e-12, 1.0}) {
        const double safe = safe_time(prediction, *schedule, t, margin);
        // Rounding in x, magnified by the smallest divisor that is allowed.
        expect_round_trip(*schedule, prediction, safe, 1e-6);
        EXPECT_LE(std::abs(safe - t), 1.1 * margin);
      }
    }
  }
}

TEST(Prediction, VAndEdmNeedNoMargin) {
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    for (const Prediction prediction : {Prediction::v, Prediction::edm}) {
      for (const double t : {0.0, 1.0}) {
        EXPECT_EQ(safe_time(prediction, *schedule, t, 1e-3), t);
        const SchedulePoint p = schedule->at(t);
        const auto data = data_from(prediction, p), noise = noise_from(prediction, p);
        EXPECT_TRUE(std::isfinite(data.state) && std::isfinite(data.output) &&
                    std::isfinite(noise.state) && std::isfinite(noise.output));
      }
    }
  }
}

TEST(Prediction, CosineVelocityIsMinusHalfPiTimesV) {
  const SchedulePtr cosine = cosine_schedule();
  for (const double t : {0.1, 0.5, 0.8}) {
    const auto u = velocity_from(Prediction::v, cosine->at(t));
    EXPECT_NEAR(u.state, 0, 1e-14);
    EXPECT_NEAR(u.output, -std::acos(-1.0) / 2, 1e-14);
  }
}

TEST(Prediction, EdmMatchesItsPaper) {
  // c_skip and c_out of Karras et al. on the EDM path, sigma_data = 0.5.
  const SchedulePtr edm = edm_schedule(80);
  const double t = 0.975, sigma = 2;
  const auto data = data_from(Prediction::edm, edm->at(t));
  EXPECT_NEAR(data.state, 0.25 / (sigma * sigma + 0.25), 1e-12);
  EXPECT_NEAR(data.output, sigma * 0.5 / std::sqrt(sigma * sigma + 0.25), 1e-12);
}

TEST(Prediction, JetsCarryTheDerivativesOfTheCoefficients) {
  for (const auto& name : {"fm-ot", "cosine", "vp", "edm"}) {
    const SchedulePtr schedule = make_schedule(name);
    for (const Prediction prediction : all_predictions()) {
      const double t = 0.4, h = 1e-6;
      const auto jet = velocity_from(prediction, schedule->jet_at(t));
      const auto up = velocity_from(prediction, schedule->at(t + h));
      const auto down = velocity_from(prediction, schedule->at(t - h));
      const double scale = 1 + std::abs(jet.output.value);
      EXPECT_NEAR(jet.state.first, (up.state - down.state) / (2 * h), 1e-6 * scale);
      EXPECT_NEAR(jet.output.first, (up.output - down.output) / (2 * h), 1e-6 * scale);
    }
  }
}

TEST(Prediction, NamesParse) {
  for (const auto& name : prediction_names()) EXPECT_EQ(to_string(parse_prediction(name)), name);
  EXPECT_THROW(parse_prediction("epsilo"), Error);
}

TEST(Prediction, TakesTheNamesOfOthers) {
  EXPECT_EQ(parse_prediction("eps"), Prediction::noise);
  EXPECT_EQ(parse_prediction("epsilon"), Prediction::noise);
  EXPECT_EQ(parse_prediction("x0"), Prediction::data);
  EXPECT_EQ(parse_prediction("sample"), Prediction::data);
  EXPECT_EQ(parse_prediction("v_prediction"), Prediction::v);
  EXPECT_EQ(parse_prediction("flow"), Prediction::velocity);
}

// A score is the gradient of the log-density: of N(0, 1) data on any path, -x / (alpha^2 +
// sigma^2).
TEST(Prediction, TheScoreOfAGaussianGivesItsDataAndNoise) {
  for (const auto& name : {"vp", "edm", "ve", "ve-power", "fm-ot"}) {
    const SchedulePtr schedule = make_schedule(name);
    const SchedulePoint p = schedule->at(0.6);
    const double x = 0.7, variance = p.alpha * p.alpha + p.sigma * p.sigma;
    const double score = -x / variance;
    EXPECT_NEAR(apply(data_from(Prediction::score, p), x, score), p.alpha * x / variance, 1e-12);
    EXPECT_NEAR(apply(noise_from(Prediction::score, p), x, score), p.sigma * x / variance, 1e-12);
  }
}

// Beyond the last time at which a network is asked, nothing is.
TEST(Prediction, NoModelIsAskedDuringTheFinalDenoisingStep) {
  const SchedulePtr path = make_schedule("ve:denoise=1");
  for (const Prediction prediction : all_predictions()) {
    for (const double t : {path->last_time(), 0.995, 1.0}) {
      EXPECT_EQ(safe_time(prediction, *path, t, 1e-4), path->last_time());
      EXPECT_EQ(safe_velocity_time(prediction, *path, t, 1e-4), path->last_time());
    }
  }
}

}  // namespace
}  // namespace bespoke
