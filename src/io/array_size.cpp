#include "array_size.h"

#include <algorithm>
#include <limits>

namespace bespoke {

bool is_array_of(const std::vector<int64_t>& shape, torch::ScalarType type, uint64_t bytes) {
  constexpr size_t kMostDimensions = 64;
  if (shape.size() > kMostDimensions) return false;
  int64_t product = static_cast<int64_t>(c10::elementSize(type));
  bool empty = false;
  for (const int64_t size : shape) {
    const int64_t factor = std::max<int64_t>(size, 1);
    if (size < 0 || product > std::numeric_limits<int64_t>::max() / factor) return false;
    empty = empty || size == 0;
    product *= factor;
  }
  return bytes == (empty ? 0 : static_cast<uint64_t>(product));
}

}  // namespace bespoke
