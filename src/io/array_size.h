#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace bespoke {

// Whether an array of this shape has exactly so many bytes and LibTorch can hold it. A file may
// claim any shape: sizes are from 0 on, and no product of them, for which LibTorch takes 0 as 1,
// may overflow.
bool is_array_of(const std::vector<int64_t>& shape, torch::ScalarType type, uint64_t bytes);

}  // namespace bespoke
