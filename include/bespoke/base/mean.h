#pragma once

#include <vector>

namespace bespoke::detail {

inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace bespoke::detail
