#pragma once

#include <cstdint>
#include <vector>

namespace bespoke {

// Which of `count` samples an iteration looks at.

// Draws `batch` of them without repetition, from (seed, iteration).
std::vector<int64_t> draw_batch(uint64_t seed, int64_t iteration, int64_t count, int64_t batch);

// Takes them without chance: one after the other from `first` on, none twice, and from the
// beginning again after the last.
std::vector<int64_t> samples_from(int64_t first, int64_t count, int64_t batch);

}  // namespace bespoke
