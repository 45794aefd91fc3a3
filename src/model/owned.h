#pragma once

#include <torch/types.h>

#include <vector>

namespace bespoke::detail {

// Whether nobody else can write to the tensor's numbers: it and its storage have this one owner. A
// network may return a buffer that it fills again in the next call.
bool is_owned(const torch::Tensor& tensor);

// Whether only the tensor itself and what it is a view of know its numbers, as of a network that
// ends in a reshape: nobody will write to them, though the tensor is not its storage's only owner.
bool is_own_view(const torch::Tensor& tensor);

// The tensor itself where it is owned, which costs nothing, and otherwise a copy.
torch::Tensor owned(torch::Tensor tensor);

// Contiguous copies, for a network that may write into what it is given.
std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& tensors);

}  // namespace bespoke::detail
