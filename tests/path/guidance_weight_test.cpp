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

GuidanceWeight range(double from, double to) { return GuidanceRange{from, to}; }

TEST(GuidanceWeight, ReadsRangesInBothConventions) {
  EXPECT_EQ(parse_guidance("0-4", false, "weight"), range(0, 4));
  EXPECT_EQ(parse_guidance("1-5", true, "scale"), range(0, 4));
  EXPECT_EQ(parse_guidance("0.5-3", false, "weight"), range(0.5, 3));
  EXPECT_EQ(parse_guidance("-1-0.5", false, "weight"), range(-1, 0.5));
  EXPECT_EQ(parse_guidance("-2--1", false, "weight"), range(-2, -1));
  EXPECT_EQ(parse_guidance("1e-3-2", false, "weight"), range(1e-3, 2));
  EXPECT_EQ(parse_guidance("1e-3", false, "weight"), GuidanceWeight(1e-3));
  EXPECT_EQ(parse_guidance("-1", false, "weight"), GuidanceWeight(-1));
  EXPECT_FALSE(parse_guidance("0:1,1:3", false, "weight").range);
  EXPECT_EQ(to_string(range(0, 4)),
            "guidance w = 0 to 4, each sample its own (guidance_scale 1 to 5)");
  EXPECT_FALSE(range(0, 4).is_zero());
  EXPECT_FALSE(range(0, 4) == range(0, 3));
  EXPECT_FALSE(range(0, 4) == GuidanceWeight(1));
  for (const auto* text : {"4-0", "2-2", "0-inf", "0-4-5", "0-", "0-4:1", "a-b"}) {
    EXPECT_THROW(parse_guidance(text, false, "weight"), Error) << text;
  }
}

TEST(GuidanceWeight, KeepsRangesInJson) {
  EXPECT_EQ(describe(range(0, 4)), (nlohmann::json{{"from", 0.0}, {"to", 4.0}}));
  EXPECT_EQ(guidance_from_json(nlohmann::json::parse(R"({"from": -1, "to": 0.5})"), "x"),
            range(-1, 0.5));
  GuidanceWeight within = range(0, 4);
  within.from = 0.25;
  EXPECT_EQ(guidance_from_json(describe(within), "x"), within);
  EXPECT_EQ(within.at(0.2).value, 0);
  EXPECT_EQ(within.at(0.3).value, 1);
  for (const auto* text : {R"({"from": 1})", R"({"from": 2, "to": 1})",
                           R"({"from": 0, "to": 1, "points": [[0, 1]]})"}) {
    EXPECT_THROW(guidance_from_json(nlohmann::json::parse(text), "x"), Error) << text;
  }
}

TEST(GuidanceWeight, ARangeCoversWhatIsInIt) {
  const GuidanceWeight made = range(0, 4);
  for (const auto& inside :
       {GuidanceWeight(0), GuidanceWeight(4), GuidanceWeight(2.5), range(0, 4), range(1, 2)}) {
    EXPECT_TRUE(covers(made, inside)) << to_string(inside);
  }
  GuidanceWeight late(2), over_time;
  late.from = 0.5;
  over_time.points = {{0, 1}, {1, 2}};
  for (const auto& outside :
       {GuidanceWeight(4.5), GuidanceWeight(-1), range(3, 5), late, over_time}) {
    EXPECT_FALSE(covers(made, outside)) << to_string(outside);
  }
  EXPECT_TRUE(covers(GuidanceWeight(2), GuidanceWeight(2)));
  EXPECT_FALSE(covers(GuidanceWeight(2), GuidanceWeight(3)));
  EXPECT_FALSE(covers(GuidanceWeight(2), range(1, 3)));
}

TEST(GuidanceWeight, BinsAreOneWideOrFourths) {
  const auto edges = [](double from, double to) {
    std::vector<double> list = {from};
    for (const auto& bin : GuidanceRange{from, to}.bins()) {
      EXPECT_EQ(bin.from, list.back());
      list.push_back(bin.to);
    }
    return list;
  };
  EXPECT_EQ(edges(0, 4), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(edges(0.5, 3), (std::vector<double>{0.5, 1.5, 2.5, 3}));
  EXPECT_EQ(edges(-1, 1), (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(edges(1, 2), (std::vector<double>{1, 1.25, 1.5, 1.75, 2}));
  EXPECT_EQ(edges(0.1, 2.1).size(), 3u);
}

}  // namespace
}  // namespace bespoke
