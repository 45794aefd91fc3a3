// The reference of so many evaluations against the exact flow of a mixture.

#include "bespoke/run/multistep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/run/reference.h"
#include "plain_problem.h"
#include "refusal.h"

namespace bespoke {
namespace {

using testing::exact_flow;
using testing::mixture_function;
using testing::relative_error;

constexpr int64_t kDrawn = 5;

// One of them ends before the data.
std::vector<SchedulePtr> every_schedule() {
  return {fm_ot_schedule(), vp_schedule(), cosine_schedule(), edm_schedule(),
          make_schedule("vp:end=0.98")};
}

struct Drawn {
  testing::Array noise;
  Reference reference;
  int64_t calls = 0;  // of single samples
};

Drawn draw(const SchedulePtr& schedule, int64_t evaluations,
           Prediction prediction = Prediction::velocity) {
  const auto mixture = testing::smooth_mixture();
  Drawn drawn;
  drawn.noise = testing::starting_noise(*schedule, kDrawn, mixture.dimension, 3);
  const auto exact = mixture_function(mixture, schedule, prediction);
  const auto counted = [&](const std::vector<double>& times, const PlainArray& x,
                           const std::vector<int64_t>& samples) {
    drawn.calls += x.count;
    return exact(times, x, samples);
  };
  ReferenceOptions options;
  options.fixed_evaluations = evaluations;
  options.record = kDrawn;
  options.batch = 3;
  drawn.reference =
      draw_reference(plain_field(counted, prediction, schedule), plain_arrays(),
                     Array::of(PlainArray{drawn.noise.values, kDrawn}), {0, 1, 2, 3, 4}, options);
  return drawn;
}

testing::Array numbers_of(const Array& x) { return {x.as<PlainArray>().values}; }

testing::Array truth(const SchedulePtr& schedule, const testing::Array& noise, double t) {
  return exact_flow(testing::smooth_mixture(), *schedule, noise, 0, t, 1000);
}

TEST(Multistep, SpendsWhatItSaysOnEveryPath) {
  for (const auto& schedule : every_schedule()) {
    for (const auto prediction : {Prediction::velocity, Prediction::noise, Prediction::data}) {
      const Drawn drawn = draw(schedule, 30, prediction);
      EXPECT_EQ(drawn.calls, 30 * kDrawn) << schedule->name() << " " << to_string(prediction);
      EXPECT_EQ(drawn.reference.evaluations, std::vector<int64_t>(kDrawn, 30));
      const testing::Array x1 = truth(schedule, drawn.noise, 1);
      EXPECT_LT(relative_error(numbers_of(drawn.reference.x), x1), 1e-3)
          << schedule->name() << " " << to_string(prediction);
    }
  }
}

// Where the steps of first order at both ends are not felt, twice as many evaluations err an
// eighth.
TEST(Multistep, IsOfThirdOrder) {
  const auto error = [](int64_t evaluations) {
    const auto schedule = vp_schedule();
    const Drawn drawn = draw(schedule, evaluations);
    const Array state = drawn.reference.trajectories.state_at(0.6, {0, 1, 2, 3, 4});
    return relative_error(numbers_of(state), truth(schedule, drawn.noise, 0.6));
  };
  const double order = std::log2(error(48) / error(96));
  EXPECT_GT(order, 2.7);
  EXPECT_LT(order, 3.4);
}

TEST(Multistep, KnowsTheStatesInBetween) {
  for (const auto& schedule : every_schedule()) {
    const Drawn drawn = draw(schedule, 30);
    for (const double t : {0.0, 0.05, 0.31, 0.55, 0.83, 0.97, 0.9995, 1.0}) {
      const Array state = drawn.reference.trajectories.state_at(t, {0, 1, 2, 3, 4});
      EXPECT_LT(relative_error(numbers_of(state), truth(schedule, drawn.noise, t)), 1e-3)
          << schedule->name() << " at t = " << t;
    }
  }
}

TEST(Multistep, NamesTheSampleThatIsNotFinite) {
  const auto broken = [](const std::vector<double>&, const PlainArray& x,
                         const std::vector<int64_t>& samples) {
    std::vector<double> values = x.values;
    for (size_t row = 0; row < samples.size(); ++row) {
      if (samples[row] == 2) values[row] = std::numeric_limits<double>::quiet_NaN();
    }
    return values;
  };
  const auto field = plain_field(broken);
  const Array noise = Array::of(PlainArray{{0.1, 0.2, 0.3, 0.4}, 4});
  ReferenceOptions options;
  options.fixed_evaluations = 20;
  const auto draw_all = [&] {
    return draw_reference(field, plain_arrays(), noise, {0, 1, 2, 3}, options);
  };
  EXPECT_NE(testing::refusal(draw_all, ErrorKind::diverged).find("sample 2"), std::string::npos);
  std::vector<int64_t> given_up;
  options.on_given_up = [&](int64_t sample, const std::string&) { given_up.push_back(sample); };
  const Reference drawn = draw_all();
  EXPECT_EQ(given_up, std::vector<int64_t>{2});
  EXPECT_TRUE(std::isfinite(numbers_of(drawn.x)[1]));
  EXPECT_TRUE(std::isnan(numbers_of(drawn.x)[2]));
}

TEST(Multistep, RefusesTooFewEvaluationsAndPartsOfTheWay) {
  const auto field = plain_field(mixture_function(testing::smooth_mixture(), fm_ot_schedule()));
  const Array noise = Array::of(PlainArray{{0.1, 0.2, 0.3, 0.4}, 1});
  ReferenceOptions options;
  const auto told = [&] {
    return testing::refusal([&] { draw_reference(field, plain_arrays(), noise, {0}, options); },
                            ErrorKind::usage);
  };
  options.fixed_evaluations = 11;
  EXPECT_NE(told().find("at least 12"), std::string::npos);
  options.fixed_evaluations = 30;
  options.end = 0.5;
  EXPECT_NE(told().find("t = 0 to 1"), std::string::npos);
}

}  // namespace
}  // namespace bespoke
