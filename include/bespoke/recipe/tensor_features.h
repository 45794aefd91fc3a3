#pragma once

#include <torch/types.h>

#include <functional>

#include "bespoke/run/samples.h"

namespace bespoke {

// Computes a row of features for each of some samples, [batch, ...] -> [batch, d].
using TensorFeatures = std::function<torch::Tensor(const torch::Tensor& samples)>;

// The same for Samples of LibTorch tensors.
SampleFeatures sample_features(TensorFeatures features);

// The features that need no network (PlainFeatures), for samples of any one shape.
torch::Tensor plain_tensor_features(const torch::Tensor& samples);

}  // namespace bespoke
