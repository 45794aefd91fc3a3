#include "owned.h"

#include <torch/torch.h>

namespace bespoke::detail {

bool is_owned(const torch::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1;
}

bool is_own_view(const torch::Tensor& tensor) {
  if (!tensor.is_view() || tensor.use_count() != 1) return false;
  // Each holds the storage, and nobody but the view holds what it is a view of.
  return tensor._base().use_count() == 1 && tensor.storage().use_count() == 2;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): who else holds it decides what is returned
torch::Tensor owned(torch::Tensor tensor) { return is_owned(tensor) ? tensor : tensor.clone(); }

std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> copies;
  for (const auto& tensor : tensors) {
    copies.push_back(tensor.clone(at::MemoryFormat::Contiguous));
  }
  return copies;
}

}  // namespace bespoke::detail
