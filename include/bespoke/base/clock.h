#pragma once

#include <chrono>

namespace bespoke::detail {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

}  // namespace bespoke::detail
