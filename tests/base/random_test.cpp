#include "bespoke/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace bespoke {
namespace {

// Known answers published with the Random123 library for philox4x32-10.
TEST(Random, PhiloxGivesThePublishedAnswers) {
  const uint32_t zero_counter[4] = {0, 0, 0, 0}, zero_key[2] = {0, 0};
  const PhiloxBlock zero = philox(zero_counter, zero_key);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const uint32_t pi_counter[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  const uint32_t pi_key[2] = {0xa4093822, 0x299f31d0};
  const PhiloxBlock pi = philox(pi_counter, pi_key);
  EXPECT_EQ(pi.word[0], 0xd16cfe09u);
  EXPECT_EQ(pi.word[1], 0x94fdccebu);
  EXPECT_EQ(pi.word[2], 0x5001e420u);
  EXPECT_EQ(pi.word[3], 0x24126ea1u);
}

TEST(Random, UniformNumbersFillTheUnitInterval) {
  const auto numbers = uniform_numbers(5, 1, 100000);
  double sum = 0, least = 1, most = 0;
  for (const double u : numbers) {
    sum += u;
    least = std::min(least, u);
    most = std::max(most, u);
  }
  EXPECT_NEAR(sum / 1e5, 0.5, 5 * std::sqrt(1 / 12. / 1e5));
  EXPECT_GT(least, 0);
  EXPECT_LT(least, 1e-3);
  EXPECT_GT(most, 0.999);
  EXPECT_NE(numbers[0], uniform_numbers(5, 2, 1)[0]);
}

}  // namespace
}  // namespace bespoke
