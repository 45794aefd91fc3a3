#include "bespoke/solver/time_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

using Times = std::vector<double>;

// A float with the low half of its bits cut off after rounding to nearest: what hardware does.
double as_bf16(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  bits += 0x7fff + ((bits >> 16) & 1);
  bits &= 0xffff0000;
  float rounded = 0;
  std::memcpy(&rounded, &bits, sizeof rounded);
  return rounded;
}

void expect_times(const std::string& rounding, const Times& times, const Times& expected) {
  const Times rounded = rounded_times(parse_time_rounding(rounding), times);
  ASSERT_EQ(rounded.size(), expected.size());
  for (size_t i = 0; i < rounded.size(); ++i) EXPECT_NEAR(rounded[i], expected[i], 1e-12) << i;
}

TEST(TimeRounding, IntegersAreLevelsOfNoise) {
  expect_times("integer", {0, 0.1234, 0.9997, 1}, {0, 0.123, 0.999, 1});
  expect_times("integer:10", {0.04, 0.26, 1}, {0, 0.3, 1});
}

TEST(TimeRounding, Bf16IsWhatHardwareMakesOfThousandths) {
  const TimeRounding bf16 = parse_time_rounding("bf16");
  for (double t = 0.0005123; t < 1; t += 0.0073137) {
    const double rounded = rounded_times(bf16, {t, 1})[0];
    EXPECT_NEAR(1000 * (1 - rounded), as_bf16(1000 * (1 - t)), 1e-9) << t;
  }
}

TEST(TimeRounding, RoundedTimesStayAsTheyAre) {
  for (const auto* name : {"free", "integer", "integer:64", "bf16"}) {
    const TimeRounding rounding = parse_time_rounding(name);
    const Times once = rounded_times(rounding, {0.013, 0.2, 0.2001, 0.7, 0.99, 1});
    EXPECT_EQ(rounded_times(rounding, once), once) << name;
  }
}

TEST(TimeRounding, KeepsTimesApart) {
  expect_times("integer:10", {0.5, 0.51, 0.99, 0.995, 1}, {0.4, 0.5, 0.8, 0.9, 1});
  const TimeRounding bf16 = parse_time_rounding("bf16");
  const Times apart = rounded_times(bf16, {0.1, 0.1001, 0.1002, 1});
  EXPECT_LT(apart[0], apart[1]);
  EXPECT_LT(apart[1], apart[2]);
}

// A network is given times of the whole path it was trained on.
TEST(TimeRounding, OfAPartOfAPathRoundsWhatTheNetworkIsGiven) {
  for (const std::string part : {"", ",denoise=1"}) {
    const SchedulePtr path = make_schedule("vp:start=0.0337,end=0.9404" + part);
    const TimeRounding rounding = parse_time_rounding("integer");
    const double last = path->last_time();
    const Times times = {0, 0.004, 0.123, 0.7 * last, 0.9999 * last, 1};
    const Times rounded = rounded_times(rounding, times, *path);
    EXPECT_EQ(rounded.back(), 1);
    for (size_t i = 0; i + 1 < times.size(); ++i) {
      const double noise = 1000 * (1 - path->trained_time(rounded[i]).value);
      EXPECT_NEAR(noise, std::nearbyint(noise), 1e-9) << i;
      EXPECT_NEAR(rounded[i], times[i], 3e-3) << i;
      EXPECT_GE(rounded[i], 0) << i;
      EXPECT_LT(rounded[i], std::min(last, rounded[i + 1])) << i;
    }
  }
}

TEST(TimeRounding, KeepsTheTimeOfAFinalDenoisingStep) {
  const SchedulePtr path = make_schedule("vp:end=0.9404,denoise=1");
  const double last = path->last_time();
  EXPECT_EQ(rounded_times(parse_time_rounding("integer"), {0, last, 1}, *path),
            Times({0, last, 1}));
}

TEST(TimeRounding, RefusesWhatItCannotDo) {
  EXPECT_THROW(parse_time_rounding("half"), Error);
  EXPECT_THROW(parse_time_rounding("integer:0"), Error);
  EXPECT_THROW(parse_time_rounding("integer:2,3"), Error);
  EXPECT_THROW(parse_time_rounding("bf16:3"), Error);
  EXPECT_THROW(rounded_times(parse_time_rounding("integer:2"), {0, 0.3, 0.6, 0.9, 1}), Error);
  EXPECT_EQ(to_string(parse_time_rounding("integer:250")), "integer:250");
}

}  // namespace
}  // namespace bespoke
