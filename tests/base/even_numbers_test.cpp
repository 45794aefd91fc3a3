#include "bespoke/base/even_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace bespoke {
namespace {

using Sequence = std::function<double(uint64_t)>;

// The widest gap that `count` numbers from `begin` on leave in [0, 1], times how many there are: 1
// where they are all equally far apart.
double widest_gap(const Sequence& sequence, uint64_t begin, int count) {
  std::vector<double> numbers = {0, 1};
  for (int i = 0; i < count; ++i) numbers.push_back(sequence(begin + static_cast<uint64_t>(i)));
  std::sort(numbers.begin(), numbers.end());
  double widest = 0;
  for (size_t i = 1; i < numbers.size(); ++i) {
    widest = std::max(widest, numbers[i] - numbers[i - 1]);
  }
  return widest * count;
}

TEST(EvenNumbers, AnyRunOfThemCoversTheInterval) {
  for (const uint64_t seed : {0u, 1u, 2u, 12345u}) {
    const Sequence by_index = [&](uint64_t i) { return even_number(seed, i); };
    const Sequence by_seed = [&](uint64_t i) { return even_number(i, seed); };
    for (const uint64_t begin : {uint64_t{0}, uint64_t{77}, uint64_t{1} << 40}) {
      for (const int count : {3, 8, 16, 50, 96, 1000}) {
        // Random numbers leave about log(count).
        EXPECT_LT(widest_gap(by_index, begin, count), 2.2) << seed << " " << begin << " " << count;
        EXPECT_LT(widest_gap(by_seed, begin, count), 2.5) << seed << " " << begin << " " << count;
      }
    }
  }
}

TEST(EvenNumbers, EveryPartHasItsShare) {
  constexpr int kParts = 4, kCount = 64;
  std::vector<int> counts(kParts, 0);
  for (uint64_t i = 500; i < 500 + kCount; ++i) {
    ++counts[static_cast<size_t>(even_number(9, i) * kParts)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kCount / kParts, 2);
}

// Multiples of the golden ratio and of the root of two, modulo one.
TEST(EvenNumbers, AreWhatTheyAreSaidToBe) {
  const double golden = (1 + std::sqrt(5.0)) / 2, root = std::sqrt(2.0);
  for (const auto& [seed, index] : {std::pair<int, int>{0, 0}, {3, 0}, {0, 17}, {5, 1000}}) {
    const double expected = 0.5 + seed * root + index * golden;
    EXPECT_NEAR(even_number(static_cast<uint64_t>(seed), static_cast<uint64_t>(index)),
                expected - std::floor(expected), 1e-12);
  }
}

}  // namespace
}  // namespace bespoke
