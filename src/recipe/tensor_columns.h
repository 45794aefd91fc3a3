#pragma once

#include <torch/types.h>

#include <vector>

#include "bespoke/distill/linear_model.h"
#include "bespoke/recipe/tensor_objective.h"

namespace bespoke::detail {

// What a step combines: x_0, the velocities and the differences.
std::vector<torch::Tensor> columns_of(const torch::Tensor& start,
                                      const std::vector<torch::Tensor>& velocities,
                                      const std::vector<torch::Tensor>& differences);
std::vector<torch::Tensor> columns_of(const PlainRun& run);

// sum_j c_j term_j.
torch::Tensor combined(const std::vector<torch::Tensor>& terms,
                       const std::vector<double>& coefficients);

// All in the type of the first.
std::vector<torch::Tensor> alike(std::vector<torch::Tensor> tensors);

// Adds samples to `model`, from their columns, [batch, columns, ...], and residuals, [batch, ...].
void append_samples(LinearModel& model, const torch::Tensor& columns,
                    const torch::Tensor& residual);
// The same of columns [batch, ...].
void append_samples(LinearModel& model, const std::vector<torch::Tensor>& columns,
                    const torch::Tensor& residual);

// The same columns, [batch, columns, ...], with other residuals, [batch, ...], where they are: the
// products and errors of that many samples.
void replace_residuals(LinearModel::Sample* samples, const torch::Tensor& columns,
                       const torch::Tensor& residual);

}  // namespace bespoke::detail
