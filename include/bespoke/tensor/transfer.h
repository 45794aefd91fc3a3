#pragma once

#include <torch/types.h>

#include <vector>

namespace bespoke {

// Copies numbers from the CPU to a device, in this type, without waiting for what a GPU still has
// to do, as a plain copy would. A number that stands for a whole batch (an expanded tensor) is
// written there. Keeps gradients, but then waits.
torch::Tensor copied_to(const torch::Tensor& values, torch::Device device, torch::ScalarType type);

// Selects rows by their positions, wherever the tensor is.
torch::Tensor rows_of(const torch::Tensor& tensor, const std::vector<int64_t>& positions);

}  // namespace bespoke
