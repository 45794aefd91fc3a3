#include "bespoke/path/clip.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "refusal.h"

namespace bespoke {
namespace {

using nlohmann::json;

TEST(Clip, ReadsEveryWayOfSayingIt) {
  EXPECT_EQ(clip_from_json(true, "clip", -2, 3), (Clip{-2, 3}));
  EXPECT_EQ(clip_from_json(json::parse("[-1, 1.5]"), "clip"), (Clip{-1, 1.5}));
  EXPECT_EQ(clip_from_json({{"quantile", 0.995}, {"cap", 1.5}}, "clip"), (Clip{-1, 1, 0.995, 1.5}));
  EXPECT_EQ(clip_from_json({{"quantile", 0.9}, {"cap", 8}, {"range", {-2, 2}}}, "clip"),
            (Clip{-2, 2, 0.9, 8}));
}

TEST(Clip, DescribesItself) {
  for (const Clip& clip : {Clip{-1, 1}, Clip{0, 3}, Clip{-1, 1, 0.995, 1.5}}) {
    EXPECT_EQ(clip_from_json(describe(clip), "clip"), clip);
  }
  EXPECT_EQ(to_string(Clip{-1, 1}), "data clipped to [-1, 1]");
}

TEST(Clip, RefusesWhatMakesNoSense) {
  for (const char* text :
       {"false", "1", "[1]", "[1, -1]", "{\"quantile\": 0.9}", "{\"quantile\": 0, \"cap\": 1}",
        "{\"quantile\": 1, \"cap\": 1}", "{\"quantile\": 0.9, \"cap\": 0.5}",
        "{\"quantile\": 0.9, \"cap\": 2, \"range\": [-1, 2]}"}) {
    const std::string message =
        testing::refusal([&] { clip_from_json(json::parse(text), "card: clip"); });
    EXPECT_EQ(message.rfind("card: clip", 0), 0U) << text << ": " << message;
  }
}

}  // namespace
}  // namespace bespoke
