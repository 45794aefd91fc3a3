#pragma once

#include <torch/types.h>

#include <vector>

namespace bespoke {

// [batch, right.size()] float64, on the device of `left` [batch, ...]: for each sample the inner
// products of `left` with every tensor of `right`, products and sums in float64. On the CPU each is
// summed in one fixed order, whatever the batch size and thread count.
torch::Tensor inner_products(const torch::Tensor& left, const std::vector<torch::Tensor>& right);

// The same with the columns of one tensor [batch, columns, ...], in one call of a device.
torch::Tensor column_products(const torch::Tensor& left, const torch::Tensor& columns);

// [batch, columns, columns] float64 on the CPU: for each sample the inner products of all `columns`
// [batch, columns, ...] with one another, summed as above.
torch::Tensor gram_matrices(const torch::Tensor& columns);

}  // namespace bespoke
