#include "bespoke/path/conversion.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bespoke {
namespace {

constexpr double kMargin = 1e-6, kData = 0.7, kNoise = -1.3;

// What a model whose data and noise predictions are these two numbers everywhere answers.
double output_at(Prediction prediction, const Schedule& schedule, double t) {
  const auto weights = output_in_terms_of_data_and_noise(prediction, schedule.at(t));
  return weights.data * kData + weights.noise * kNoise;
}

double state_at(const Schedule& schedule, double t) {
  return schedule.alpha(t) * kData + schedule.sigma(t) * kNoise;
}

constexpr Prediction kEvery[] = {Prediction::velocity, Prediction::noise, Prediction::data,
                                 Prediction::v,        Prediction::edm,   Prediction::score};

TEST(Conversion, OnTheFmOtPathTheVelocityOfEveryModelIsDataMinusNoise) {
  const SchedulePtr straight = fm_ot_schedule();
  for (const auto& entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(entry.name);
    const ScaleTimePtr change = schedule_change(schedule, straight);
    for (const Prediction prediction : kEvery) {
      for (const double r : {0.3, 0.5, 0.8}) {
        const ModelCall call =
            rescheduled_call(prediction, *schedule, *change, *straight, r, kMargin);
        const double x = r * kData + (1 - r) * kNoise;
        EXPECT_NEAR(call.scale * x, state_at(*schedule, call.time), 1e-6 * call.scale);
        const double f = output_at(prediction, *schedule, call.time);
        EXPECT_NEAR(call.velocity.state * call.scale * x + call.velocity.output * f, kData - kNoise,
                    1e-6)
            << entry.name << " " << to_string(prediction) << " r = " << r;
      }
    }
  }
}

TEST(Conversion, TheVelocityOnTheOwnPathIsTheDerivativeOfTheState) {
  const SchedulePtr schedule = vp_schedule();
  for (const Prediction prediction : kEvery) {
    const double t = 0.6, h = 1e-6;
    const ModelCall call = velocity_call(prediction, *schedule, t, kMargin);
    EXPECT_EQ(call.time, t);
    const double u = call.velocity.state * call.scale * state_at(*schedule, t) +
                     call.velocity.output * output_at(prediction, *schedule, t);
    const double slope = (state_at(*schedule, t + h) - state_at(*schedule, t - h)) / (2 * h);
    EXPECT_NEAR(u, slope, 1e-6) << to_string(prediction);
  }
}

TEST(Conversion, ABridgeIsExactWhereTheDataPredictionIsConstant) {
  const SchedulePtr schedule = cosine_schedule();
  for (const Prediction prediction : {Prediction::noise, Prediction::v, Prediction::velocity}) {
    const double from = 0.2, to = 0.5;
    const Affine<double> step = bridge_step(prediction, *schedule, from, to, from);
    const double x = state_at(*schedule, from);
    EXPECT_NEAR(step.state * x + step.output * output_at(prediction, *schedule, from),
                state_at(*schedule, to), 1e-12)
        << to_string(prediction);
  }
}

TEST(Conversion, OnlyEndsThatDetermineNothingAreBridged) {
  const SchedulePtr path = fm_ot_schedule();
  const Crossing noise = crossing_of(Prediction::noise, *path, 0, 1, kMargin);
  EXPECT_TRUE(noise.bridges_start());
  EXPECT_FALSE(noise.bridges_end());
  EXPECT_NEAR(path->snr(noise.first), kMargin, 1e-3 * kMargin);
  const Crossing data = crossing_of(Prediction::data, *path, 0, 1, kMargin);
  EXPECT_FALSE(data.bridges_start());
  EXPECT_TRUE(data.bridges_end());
  EXPECT_EQ(crossing_of(Prediction::velocity, *path, 0, 1, kMargin).bridges(), 0);
}

}  // namespace
}  // namespace bespoke
