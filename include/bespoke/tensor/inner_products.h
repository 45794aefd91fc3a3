#pragma once

#include <torch/types.h>

#include <vector>

namespace bespoke {

// The inner products of `left` [batch, ...] with every tensor of `right` for each sample, products
// and sums in float64: [batch, right.size()] on the device of `left`. On the CPU each is summed in
// one fixed order, whatever the batch size and thread count.
torch::Tensor inner_products(const torch::Tensor& left, const std::vector<torch::Tensor>& right);

// The same with the columns of one tensor [batch, columns, ...], in one call of a device.
torch::Tensor column_products(const torch::Tensor& left, const torch::Tensor& columns);

// The inner products of all `columns` [batch, columns, ...] with one another for each sample,
// summed as above: [batch, columns, columns] float64 on the CPU.
torch::Tensor gram_matrices(const torch::Tensor& columns);

}  // namespace bespoke
