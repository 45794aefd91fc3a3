#include "bespoke/base/even_numbers.h"

namespace bespoke {

// Kronecker sequences: multiples of an irrational number modulo one. Those of the golden ratio are
// the most even of all, those of the root of two nearly so. In 64-bit fixed point the modulo is
// exact, so that late numbers are as even as early ones.
double even_number(uint64_t seed, uint64_t index) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // the golden ratio's fraction
  constexpr uint64_t kRootOfTwo = 0x6A09E667F3BCC909;
  constexpr uint64_t kHalf = uint64_t{1} << 63;  // the first of all is no end of the interval
  const uint64_t fraction = kHalf + seed * kRootOfTwo + index * kGolden;
  return static_cast<double>(fraction >> 11) * 0x1p-53;
}

}  // namespace bespoke
