#include "bespoke/model/sample_parts.h"

#include <torch/torch.h>

namespace bespoke {

std::vector<torch::Tensor> split_into_parts(const torch::Tensor& x,
                                            const std::vector<SamplePart>& parts) {
  std::vector<torch::Tensor> tensors;
  int64_t begin = 0;
  for (const SamplePart& part : parts) {
    std::vector<int64_t> shape = part.shape;
    shape.insert(shape.begin(), x.size(0));
    tensors.push_back(x.narrow(1, begin, part.size()).reshape(shape).contiguous());
    begin += part.size();
  }
  return tensors;
}

torch::Tensor joined_parts(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& tensor : tensors) rows.push_back(tensor.flatten(1));
  return torch::cat(rows, 1);
}

}  // namespace bespoke
