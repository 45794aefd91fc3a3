#include "bespoke/base/random.h"

#include <algorithm>
#include <cmath>

namespace bespoke {

PhiloxBlock philox(const uint32_t counter[4], const uint32_t key[2]) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  PhiloxBlock c = {{counter[0], counter[1], counter[2], counter[3]}};
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * c.word[0];
    const uint64_t product1 = kMultiplier1 * c.word[2];
    c = {{static_cast<uint32_t>(product1 >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(product0)}};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

namespace {

// A double in (0, 1) from 53 random bits, never 0 so that its logarithm is finite.
double unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 21) ^ (low >> 11);
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

struct UnitPair {
  double first, second;
};

// Streams: 0 is noise, others are named by the caller.
PhiloxBlock random_block(uint64_t seed, uint64_t index, uint32_t stream, uint32_t block) {
  const uint32_t counter[4] = {block, static_cast<uint32_t>(index),
                               static_cast<uint32_t>(index >> 32), stream};
  const uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  return philox(counter, key);
}

UnitPair unit_pair(uint64_t seed, uint64_t index, uint32_t stream, uint32_t block) {
  const PhiloxBlock random = random_block(seed, index, stream, block);
  return {unit(random.word[0], random.word[1]), unit(random.word[2], random.word[3])};
}

}  // namespace

void fill_normal(uint64_t seed, uint64_t index, double* out, int64_t size) {
  const double two_pi = 2 * std::acos(-1.0);
  for (int64_t i = 0; i < size; i += 2) {
    const UnitPair u = unit_pair(seed, index, 0, static_cast<uint32_t>(i / 2));
    const double radius = std::sqrt(-2 * std::log(u.first));
    out[i] = radius * std::cos(two_pi * u.second);
    if (i + 1 < size) out[i + 1] = radius * std::sin(two_pi * u.second);
  }
}

std::vector<double> uniform_numbers(uint64_t seed, uint32_t stream, size_t count) {
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = unit_pair(seed, i, stream, 0).first;
  return numbers;
}

}  // namespace bespoke
