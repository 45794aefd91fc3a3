#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace bespoke::detail {

// Writes tensors as bytes, to be handed to another process, and reads them back on the CPU.
std::string tensor_bytes(const std::vector<torch::Tensor>& tensors);
std::vector<torch::Tensor> tensors_of(const std::string& bytes);

}  // namespace bespoke::detail
