#include "bespoke/tensor/tensor_bytes.h"

#include <torch/torch.h>

#include <sstream>

namespace bespoke::detail {

std::string tensor_bytes(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> copies;  // a view would be written with all that it is a view of
  for (const auto& tensor : tensors) copies.push_back(tensor.detach().cpu().clone());
  std::ostringstream stream;
  torch::save(copies, stream);
  return stream.str();
}

std::vector<torch::Tensor> tensors_of(const std::string& bytes) {
  std::istringstream stream(bytes);
  std::vector<torch::Tensor> tensors;
  torch::load(tensors, stream);
  return tensors;
}

}  // namespace bespoke::detail
