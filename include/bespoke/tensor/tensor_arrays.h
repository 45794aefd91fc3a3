#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "bespoke/run/arrays.h"

namespace bespoke {

// Arrays of LibTorch tensors on any device. On the CPU every sum is a single pass over memory, in
// one order whatever the batch and the number of threads; on other devices nothing waits.
std::shared_ptr<const Arrays> tensor_arrays();

inline Array array_of(torch::Tensor tensor) { return Array::of(std::move(tensor)); }
inline const torch::Tensor& tensor_of(const Array& array) { return array.as<torch::Tensor>(); }
std::vector<torch::Tensor> tensors_in(const std::vector<Array>& arrays);

}  // namespace bespoke
