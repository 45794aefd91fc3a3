#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace bespoke {

// Standard normal noise, one sample per seed, drawn on the CPU from (seed, index) by the counter-
// based generator Philox 4x32-10: sample 17 of seed 3 is the same for any batch size, thread count
// or device.

// Four 32-bit words for a counter and key.
struct PhiloxBlock {
  uint32_t word[4];
};
PhiloxBlock philox(const uint32_t counter[4], const uint32_t key[2]);

// [count, shape...] float64: samples first ... first + count - 1 of the seed.
torch::Tensor normal_noise(uint64_t seed, uint64_t first, int64_t count,
                           const std::vector<int64_t>& shape);

// Independent uniform numbers in (0, 1) from the same generator, for model parameters and choices.
// `stream` keeps them apart from the noise of the same seed.
std::vector<double> uniform_numbers(uint64_t seed, uint32_t stream, size_t count);

// [count, shape...] float64 of independent random signs, -1 or 1: samples first ... first + count -
// 1 of (seed, stream), from the same generator.
torch::Tensor random_signs(uint64_t seed, uint32_t stream, uint64_t first, int64_t count,
                           const std::vector<int64_t>& shape);

}  // namespace bespoke
