#include "bespoke/recipe/tensor_features.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/distill/plain_features.h"
#include "bespoke/tensor/tensor_arrays.h"

namespace bespoke {

SampleFeatures sample_features(TensorFeatures features) {
  return [features = std::move(features)](const Array& samples) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor found =
        features(tensor_of(samples)).to(torch::kCPU, torch::kDouble).contiguous();
    if (found.dim() != 2) {
      throw bad_input("features are a row of numbers for each sample, found a tensor of {} axes",
                      found.dim());
    }
    Matrix matrix(static_cast<size_t>(found.size(0)), static_cast<size_t>(found.size(1)));
    const auto* values = found.data_ptr<double>();
    matrix.values.assign(values, values + found.numel());
    return matrix;
  };
}

torch::Tensor plain_tensor_features(const torch::Tensor& samples) {
  const torch::Tensor wide = samples.to(torch::kCPU, torch::kDouble).contiguous();
  const auto* values = wide.data_ptr<double>();
  const PlainFeatures features(wide.sizes().slice(1).vec());
  const Matrix found = features({values, values + wide.numel()});
  torch::Tensor result =
      torch::empty({wide.size(0), static_cast<int64_t>(found.columns)}, torch::kDouble);
  std::copy(found.values.begin(), found.values.end(), result.data_ptr<double>());
  return result;
}

}  // namespace bespoke
