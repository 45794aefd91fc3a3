#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace bespoke {

// The greatest absolute value, which the colours of a heat map are relative to; 0 of none.
inline double largest_size(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace bespoke
