#pragma once

#include <cstdint>

namespace bespoke {

// Sounds have so many values a second, in Hz. Below it is nothing that could be heard, and above
// there is a mistake.
constexpr int kLeastSampleRate = 100, kMostSampleRate = 1'000'000;

inline bool is_sample_rate(int64_t rate) {
  return rate >= kLeastSampleRate && rate <= kMostSampleRate;
}

}  // namespace bespoke
