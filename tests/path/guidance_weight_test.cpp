#include "bespoke/path/guidance_weight.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

TEST(GuidanceWeight, ReadsBothConventionsAndNamesBoth) {
  EXPECT_EQ(parse_guidance("2", false, "weight"), GuidanceWeight(2));
  EXPECT_EQ(parse_guidance("3", true, "scale"), GuidanceWeight(2));
  EXPECT_EQ(to_string(GuidanceWeight(2)), "guidance w = 2 (guidance_scale 3)");
  auto weight = parse_guidance("0:1,0.5:4", true, "scale");
  EXPECT_DOUBLE_EQ(weight.at(0.25).value, 1.5);
  EXPECT_DOUBLE_EQ(weight.at(0.9).value, 3);
  parse_guidance_interval(weight, "0.1,0.8", "interval");
  EXPECT_EQ(to_string(weight),
            "guidance w(t) = 0:0,0.5:3 (guidance_scale 0:1,0.5:4) for t in [0.1, 0.8]");
  EXPECT_EQ(weight.at(0.9).value, 0);
}

TEST(GuidanceWeight, RoundTripsThroughJson) {
  GuidanceWeight weight;
  weight.points = {{0, 0.1}, {0.7, 1.0 / 3}};
  weight.to = 0.9;
  EXPECT_EQ(guidance_from_json(describe(weight), "x"), weight);
  EXPECT_EQ(describe(GuidanceWeight(2.5)), 2.5);
  EXPECT_EQ(guidance_from_json(2.5, "x"), GuidanceWeight(2.5));
}

TEST(GuidanceWeight, RefusesNonsense) {
  for (const auto* text : {"two", "0:1,0:2", "0.5:1,0.2:2", "0:1,2:3", "0:1:2,1:1", "nan"}) {
    EXPECT_THROW(parse_guidance(text, false, "weight"), Error) << text;
  }
  GuidanceWeight weight(1);
  for (const auto* text : {"0.5", "0.8,0.2", "-1,0.5", "0,2"}) {
    EXPECT_THROW(parse_guidance_interval(weight, text, "interval"), Error) << text;
  }
}

// What is wrong is said of what the caller calls it.
TEST(GuidanceWeight, NamesWhatItWasGiven) {
  GuidanceWeight weight(1);
  try {
    parse_guidance_interval(weight, "0.8,0.2", "the interval of guidance");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the interval of guidance needs an interval 0 <= from < to <= 1");
  }
}

}  // namespace
}  // namespace bespoke
