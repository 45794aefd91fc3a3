#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace bespoke {

// Standard normal noise, one sample per seed, drawn on the CPU from (seed, index) (base/random.h):
// sample 17 of seed 3 is the same for any batch size, thread count or device.

// The noise of samples first ... first + count - 1 of a seed, [count, shape...] float64.
torch::Tensor normal_noise(uint64_t seed, uint64_t first, int64_t count,
                           const std::vector<int64_t>& shape);

}  // namespace bespoke
