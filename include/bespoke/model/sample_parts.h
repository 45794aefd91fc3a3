#pragma once

#include <torch/types.h>

#include <vector>

#include "bespoke/model/card.h"

namespace bespoke {

// Splits [batch, numbers] into the parts [batch, shape ...], and joins them.
std::vector<torch::Tensor> split_into_parts(const torch::Tensor& x,
                                            const std::vector<SamplePart>& parts);
torch::Tensor joined_parts(const std::vector<torch::Tensor>& tensors);

}  // namespace bespoke
