#include "tensor_columns.h"

#include <torch/torch.h>

#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"

namespace bespoke::detail {

std::vector<torch::Tensor> columns_of(const torch::Tensor& start,
                                      const std::vector<torch::Tensor>& velocities,
                                      const std::vector<torch::Tensor>& differences) {
  std::vector<torch::Tensor> tensors = {start};
  tensors.insert(tensors.end(), velocities.begin(), velocities.end());
  tensors.insert(tensors.end(), differences.begin(), differences.end());
  return tensors;
}

std::vector<torch::Tensor> columns_of(const PlainRun& run) {
  return columns_of(run.x.front(), run.u, run.d);
}

torch::Tensor combined(const std::vector<torch::Tensor>& terms,
                       const std::vector<double>& coefficients) {
  torch::Tensor result = torch::empty_like(terms.front());
  combine(result, terms, coefficients);
  return result;
}

std::vector<torch::Tensor> alike(std::vector<torch::Tensor> tensors) {
  for (auto& tensor : tensors) tensor = tensor.to(tensors.front().scalar_type());
  return tensors;
}

void append_samples(LinearModel& model, const std::vector<torch::Tensor>& columns,
                    const torch::Tensor& residual) {
  append_samples(model, torch::stack(alike(columns), 1), residual);
}

void append_samples(LinearModel& model, const torch::Tensor& columns,
                    const torch::Tensor& residual) {
  const auto n = static_cast<size_t>(columns.size(1));
  model.size = static_cast<double>(residual.numel() / residual.size(0));
  const torch::Tensor grams = gram_matrices(torch::cat(alike({columns, residual.unsqueeze(1)}), 1));
  const auto values = grams.accessor<double, 3>();
  for (int64_t s = 0; s < residual.size(0); ++s) {
    const auto at = [&](size_t i, size_t j) {
      return values[s][static_cast<int64_t>(i)][static_cast<int64_t>(j)];
    };
    LinearModel::Sample sample{at(n, n), std::vector<double>(n), Matrix(n, n)};
    for (size_t i = 0; i < n; ++i) {
      sample.products[i] = at(n, i);
      for (size_t j = 0; j < n; ++j) sample.gram(i, j) = at(i, j);
    }
    model.samples.push_back(std::move(sample));
  }
}

void replace_residuals(LinearModel::Sample* samples, const torch::Tensor& columns,
                       const torch::Tensor& residual) {
  const torch::Tensor products = column_products(residual, columns).to(torch::kCPU);
  const torch::Tensor squares = inner_products(residual, {residual}).to(torch::kCPU);
  const auto values = products.accessor<double, 2>();
  for (int64_t s = 0; s < residual.size(0); ++s) {
    LinearModel::Sample& sample = samples[s];
    for (int64_t i = 0; i < columns.size(1); ++i) {
      sample.products[static_cast<size_t>(i)] = values[s][i];
    }
    sample.squared_error = squares.data_ptr<double>()[s];
  }
}

}  // namespace bespoke::detail
