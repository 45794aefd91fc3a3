#include "bespoke/recipe/tensor_features.h"

#include <torch/torch.h>

#include <utility>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/distill/plain_features.h"
#include "bespoke/tensor/tensor_arrays.h"

namespace bespoke {

SampleFeatures sample_features(TensorFeatures features) {
  return [features = std::move(features)](const Array& samples) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor rows =
        features(tensor_of(samples)).to(torch::kCPU, torch::kDouble).contiguous();
    if (rows.dim() != 2) {
      throw bad_input("features are a row of numbers for each sample, found a tensor of {} axes",
                      rows.dim());
    }
    Matrix matrix(static_cast<size_t>(rows.size(0)), static_cast<size_t>(rows.size(1)));
    const auto* values = rows.data_ptr<double>();
    matrix.values.assign(values, values + rows.numel());
    return matrix;
  };
}

namespace {

// [filters, channels, 3 or 1, 3]
torch::Tensor filters_of(const PlainFeatures& features, const torch::Tensor& like) {
  const PlainFeatures::Plane& plane = features.plane();
  const int64_t rows = plane.height == 1 ? 1 : 3;
  std::vector<double> numbers;
  for (const auto& filter : features.filters()) {
    numbers.insert(numbers.end(), filter.begin(), filter.end());
  }
  return torch::tensor(numbers, torch::kDouble)
      .reshape({-1, plane.channels, rows, 3})
      .to(like.device(), like.scalar_type());
}

}  // namespace

torch::Tensor plain_tensor_features(const torch::Tensor& samples) {
  const PlainFeatures features(samples.sizes().slice(1).vec());
  const PlainFeatures::Plane& plane = features.plane();
  torch::Tensor x = samples.to(torch::kFloat)
                        .reshape({samples.size(0), plane.channels, plane.height, plane.width});
  const torch::Tensor filters = filters_of(features, x);
  std::vector<torch::Tensor> parts;
  const torch::Tensor channels = x.slice(1, 0, PlainFeatures::kMostChannels).flatten(2);
  for (int64_t scale = 0; scale < features.scales(); ++scale) {
    if (scale > 0) x = torch::avg_pool2d(x, {plane.height == 1 ? 1 : 2, 2});
    const torch::Tensor answers = torch::conv2d(x, filters);
    parts.push_back((answers.abs().mean({2, 3}) + PlainFeatures::kFaint).log());
  }
  const torch::Tensor deviations = channels.std(2, /*unbiased=*/false) + PlainFeatures::kFaint;
  parts.push_back(torch::stack({channels.mean(2), deviations.log()}, 2).flatten(1));
  return torch::cat(parts, 1);
}

}  // namespace bespoke
