#include "bespoke/base/json_checks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bespoke/base/error.h"

namespace bespoke {

using namespace detail;
namespace {

std::string nested(int levels, char open, char close) {
  const auto count = static_cast<size_t>(levels);
  return std::string(count, open) + std::string(count, close);
}

std::string refusal_of(const std::string& text) {
  try {
    parse_json(text, "x.json", "write it anew");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
}

TEST(JsonChecks, RefusesWhatIsTooDeepToWalk) {
  EXPECT_EQ(refusal_of(nested(100, '[', ']')), "");
  for (const int levels : {101, 100000, 1000000}) {
    EXPECT_EQ(refusal_of(nested(levels, '[', ']')),
              "x.json: its values lie more than 100 levels deep; write it anew");
    EXPECT_TRUE(try_parse_json(nested(levels, '[', ']')).is_discarded());
  }
  std::string objects;
  for (int i = 0; i < 5000; ++i) objects += "{\"a\":";
  EXPECT_NE(refusal_of(objects).find("levels deep"), std::string::npos);
}

TEST(JsonChecks, SaysWhereAFileIsNoJsonInItsOwnWords) {
  EXPECT_EQ(refusal_of("{\n  \"a\": 1,\n  b\n}"),
            "x.json: not a JSON file (line 3, column 3); write it anew");
  EXPECT_EQ(refusal_of(""), "x.json: not a JSON file (line 1, column 1); write it anew");
  EXPECT_EQ(refusal_of("[1e999]").find("x.json: not a JSON file (number overflow"), 0u);
}

TEST(JsonChecks, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(refusal_of(R"({"nfe": 4, "times": [], "nfe": 8})"),
            "x.json: key \"nfe\" is there twice; write it anew");
  EXPECT_EQ(refusal_of(R"([{"a": {"b": 1, "c": {}, "b": 1}}])"),
            "x.json: key \"b\" is there twice; write it anew");
  EXPECT_EQ(refusal_of(R"({"a": 1, "\u0061": 2})"),
            "x.json: key \"a\" is there twice; write it anew");
  EXPECT_EQ(refusal_of(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]})"), "");
}

TEST(JsonChecks, LongValuesAreShortened) {
  const nlohmann::json value = std::string(180000, 'v');
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { number(value, "x.json: key"); }, [&] { whole_number(value, "x.json: key", 0, 1); },
           [&] { text_value(nlohmann::json::array({value}), "x.json: key"); },
           [&] { check_keys(value, {}, {}, "x.json"); },
           [&] {
             check_keys({{value.get<std::string>(), 1}}, {"name"}, {}, "x.json");
           }}) {
    try {
      read();
      FAIL();
    } catch (const Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 200u);
    }
  }
}

TEST(JsonChecks, BracketsInTextsAreNoLevels) {
  const std::string text = "[\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\"]";
  EXPECT_EQ(refusal_of(text), "");
  EXPECT_EQ(parse_json(text, "x", "")[0].get<std::string>().size(), 1001u);
  std::string list = "[[]";
  for (int i = 0; i < 500; ++i) list += ",[]";
  EXPECT_EQ(refusal_of(list + "]"), "");
}

TEST(JsonChecks, ALineThatIsNoJsonIsDiscarded) {
  EXPECT_TRUE(try_parse_json("{\"step\": 1").is_discarded());
  EXPECT_EQ(try_parse_json("{\"step\": 1}")["step"], 1);
}

}  // namespace
}  // namespace bespoke
