#include "bespoke/base/base64.h"

#include <gtest/gtest.h>

namespace bespoke {

using namespace detail;
namespace {

TEST(Base64, AgreesWithTheExamplesOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

TEST(Base64, TakesEveryByte) {
  EXPECT_EQ(base64(std::string("\xff\xfe\x00\xfb\xef\xbe", 6)), "//4A++++");
}

TEST(Base64, MakesAddressesThatHoldTheirContent) {
  EXPECT_EQ(data_uri("image/png", "foo"), "data:image/png;base64,Zm9v");
}

}  // namespace
}  // namespace bespoke
