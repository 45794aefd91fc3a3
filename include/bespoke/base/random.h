#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bespoke {

// Random numbers from (seed, index) by the counter-based generator Philox 4x32-10: number 17 of
// seed 3 is the same whatever was drawn before it, on any machine.

// What the generator returns for one counter and key.
struct PhiloxBlock {
  uint32_t word[4];  // independent and uniform over all 32-bit words
};
// The four words of a counter under a key.
PhiloxBlock philox(const uint32_t counter[4], const uint32_t key[2]);

// Fills `out` with the standard normal noise of one sample.
void fill_normal(uint64_t seed, uint64_t index, double* out, int64_t size);

// Independent uniform numbers in (0, 1), for model parameters and choices.
std::vector<double> uniform_numbers(uint64_t seed, uint32_t stream, size_t count);

}  // namespace bespoke
