#include "bespoke/base/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/printable_lines.h"
#include "bespoke/base/spec.h"

namespace bespoke {

using namespace detail;
namespace {

TEST(Text, ShortensAtWholeCharacters) {
  EXPECT_EQ(shortened("short", 5), "short");
  EXPECT_EQ(shortened("longer", 5), "lo...");
  EXPECT_EQ(shortened("a\xC3\xA9\xC3\xA9\xC3\xA9", 6), "a\xC3\xA9...");
  EXPECT_EQ(shortened("a\xC3\xA9\xC3\xA9\xC3\xA9", 5), "a...");
  EXPECT_EQ(shortened(std::string(1000, 'x'), 300).size(), 300u);
}

TEST(Text, MakesControlCharactersVisible) {
  EXPECT_EQ(printable("a\x1b[31m\tb\n\x7f"), "a\\x1b[31m\\x09b\\x0a\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m \xC3\xA9 \xC2\xA9"),
            "\\x9b1m \xC3\xA9 \xC2\xA9");
  // U+202E shows what follows from right to left: "exe.solver" for "revlos.exe".
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\xe2\\x80\\xae"
            "b");
  EXPECT_EQ(printable("\xE2\x81\xA6\xE2\x80\xA8\xD8\x9C"),
            "\\xe2\\x81\\xa6\\xe2\\x80\\xa8\\xd8\\x9c");
  EXPECT_EQ(printable_lines("a\x1b\n\nb\r"), "a\\x1b\n\nb\\x0d");
  const std::string plain = "\xD8\xA7\xE2\x80\x94\xE2\x80\x8D\xF0\x9F\x8E\xA8";
  EXPECT_EQ(printable(plain), plain) << "letters, dashes, joiners and emoji stay";
}

TEST(Text, KnowsANumberByItself) {
  for (const char* number : {"0", "-1.5", "1e-3", ".5"}) EXPECT_TRUE(reads_as_number(number));
  for (const char* other : {"", "1,5", " 1", "1 ", "0x10", "one", "1-2"}) {
    EXPECT_FALSE(reads_as_number(other)) << other;
  }
}

TEST(Text, ReadsRangesAtTheEndsOfTheNumbers) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(parse_integer_list("9223372036854775806-9223372036854775807", "seeds"),
            (std::vector<int64_t>{kMost - 1, kMost}));
  EXPECT_EQ(parse_integer_list("-9223372036854775808-9223372036854775807+9223372036854775807", "s"),
            (std::vector<int64_t>{kLeast, -1, kMost - 1}));
  for (const char* wrong : {"-9223372036854775808-9223372036854775807", "0-1000000",
                            "0-500000,0-500000", "9223372036854775808", "0-9223372036854775808"}) {
    EXPECT_THROW(parse_integer_list(wrong, "seeds"), Error) << wrong;
  }
  EXPECT_EQ(parse_integer_list("0-999999", "seeds").size(), 1000000u);
}

TEST(Text, ReadsIntegerLists) {
  EXPECT_EQ(parse_integer_list("4-20+4", "nfe"), (std::vector<int64_t>{4, 8, 12, 16, 20}));
  EXPECT_EQ(parse_integer_list("3,5-7", "nfe"), (std::vector<int64_t>{3, 5, 6, 7}));
  EXPECT_EQ(parse_integer_list("8", "nfe"), (std::vector<int64_t>{8}));
  for (const char* wrong : {"", "8-4", "4-8+0", "four", "4-", "4-8+", "1-99999999999"}) {
    EXPECT_THROW(parse_integer_list(wrong, "nfe"), Error) << wrong;
  }
}

TEST(Text, SuggestsTheNearestNameOrListsAll) {
  EXPECT_EQ(nearest("midpont", {"euler", "midpoint", "heun"}), "midpoint");
  EXPECT_EQ(nearest("xyzzy", {"euler", "midpoint"}), "");
  EXPECT_EQ(unknown_name("solver", "heum", {"heun", "rk4"}),
            "unknown solver 'heum'; did you mean 'heun'?");
  EXPECT_EQ(unknown_name("grid", "qqqqqq", {"a", "b"}),
            "unknown grid 'qqqqqq'; choose one of: a, b");
}

TEST(Text, SortsNamesAsPeopleDo) {
  const std::vector<std::string> sorted = {"",  "01", "1",   "1a",  "2",     "10", "A2",
                                           "a", "a2", "a2b", "a10", "a10/1", "b",  "\xc3\xa9"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(natural_less(sorted[i], sorted[j]), i < j) << sorted[i] << " and " << sorted[j];
    }
  }
  EXPECT_TRUE(natural_less("x99999999999999999999998", "x99999999999999999999999"));
}

TEST(Text, GroupsThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(25000), "25,000");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(Text, LowersLettersOnly) { EXPECT_EQ(lower_case("A.JPG [Z\xc3\x89"), "a.jpg [z\xc3\x89"); }

TEST(Text, ExactDecimalsReadBack) {
  for (const double value : {0.1, 1. / 3, 6.02e23, -5e-324, 0.30000000000000004}) {
    EXPECT_EQ(std::strtod(exact(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(exact(0), "0");
  EXPECT_EQ(exact(-0.0), "-0.0") << "JSON reads -0 as a whole number";
}

TEST(Spec, SplitsNameOptionsAndPositions) {
  const Spec spec = Spec::parse("vp:B=20,b=0.5");
  EXPECT_EQ(spec.name, "vp");
  EXPECT_EQ(spec.number("B", 1), 20);
  EXPECT_EQ(spec.number("b", 1), 0.5);
  EXPECT_EQ(spec.number("absent", 3), 3);
  EXPECT_EQ(Spec::parse("custom:0,0.5,1").positional.size(), 3u);
}

TEST(Spec, RefusesUnknownOptionsWithASuggestion) {
  try {
    Spec::parse("karras:rhoo=7").allow_only({"rho", "sigma_min"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("did you mean 'rho'"), std::string::npos);
  }
}

}  // namespace
}  // namespace bespoke
