#pragma once

#include <cstdint>

namespace bespoke {

// What was spent, in single samples, recomputation included.
struct Counts {
  int64_t forwards = 0;  // evaluations of the field; with built-in guidance, network calls
  int64_t vjps = 0;      // vector-Jacobian products through it
};

}  // namespace bespoke
