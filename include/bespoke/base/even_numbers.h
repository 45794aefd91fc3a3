#pragma once

#include <cstdint>

namespace bespoke {

// A number in [0, 1) from (seed, index) alone. Consecutive indices of a seed cover the interval
// evenly, however many they are and wherever they begin, and so do consecutive seeds of an index:
// among n of them no gap is wider than a few n-ths. Not random; for settings that samples are to be
// spread over.
double even_number(uint64_t seed, uint64_t index);

}  // namespace bespoke
