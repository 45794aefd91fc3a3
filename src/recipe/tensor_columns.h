#pragma once

#include <torch/types.h>

#include <vector>

#include "bespoke/distill/linear_model.h"

namespace bespoke::detail {

// Adds samples to `model`, from their columns and residuals, [batch, ...] each.
void append_samples(LinearModel& model, std::vector<torch::Tensor> columns,
                    const torch::Tensor& residual);

// The same columns with other residuals, [batch, ...]: the products and errors of that many
// samples.
void replace_residuals(LinearModel::Sample* samples, const std::vector<torch::Tensor>& columns,
                       const torch::Tensor& residual);

}  // namespace bespoke::detail
