#pragma once

#include <cstdint>
#include <vector>

namespace bespoke {

// Which of `count` samples an iteration looks at.

// `batch` of them, without repetition, from (seed, iteration).
std::vector<int64_t> draw_batch(uint64_t seed, int64_t iteration, int64_t count, int64_t batch);

// The same without chance: samples that no iteration before had, as long as there are any, one
// after the other.
std::vector<int64_t> fresh_batch(int64_t iteration, int64_t count, int64_t batch);

// Those and so many that follow them, none twice.
std::vector<int64_t> judges_of(int64_t iteration, int64_t count, int64_t batch, int64_t others);

}  // namespace bespoke
