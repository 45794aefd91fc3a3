#include "bespoke/tensor/inner_products.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

namespace bespoke {

namespace {

double dot(const double* left, const double* right, int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += left[i] * right[i];
  return sum;
}

torch::Tensor rows_of(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kDouble).reshape({tensor.size(0), -1}).contiguous();
}

// [batch, tensors, size] float64.
torch::Tensor stacked(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> rows;
  for (const auto& tensor : tensors) rows.push_back(rows_of(tensor));
  return torch::stack(rows, 1);
}

}  // namespace

torch::Tensor inner_products(const torch::Tensor& left, const std::vector<torch::Tensor>& right) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor wide = rows_of(left);
  if (!wide.device().is_cpu()) {
    return torch::bmm(stacked(right), wide.unsqueeze(2)).squeeze(2);
  }
  const int64_t batch = wide.size(0), size = wide.size(1);
  const auto terms = static_cast<int64_t>(right.size());
  torch::Tensor products = torch::empty({batch, terms}, wide.options());
  for (int64_t k = 0; k < terms; ++k) {
    const torch::Tensor other = rows_of(right[static_cast<size_t>(k)]);
    const auto* a = wide.data_ptr<double>();
    const auto* b = other.data_ptr<double>();
    auto* out = products.data_ptr<double>() + k;
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i * terms] = dot(a + i * size, b + i * size, size);
    });
  }
  return products;
}

torch::Tensor gram_matrices(const std::vector<torch::Tensor>& columns) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor all = stacked(columns);
  if (!all.device().is_cpu()) return torch::bmm(all, all.transpose(1, 2)).to(torch::kCPU);
  const int64_t batch = all.size(0), count = all.size(1), size = all.size(2);
  torch::Tensor grams = torch::empty({batch, count, count}, torch::kDouble);
  const auto* values = all.data_ptr<double>();
  auto* out = grams.data_ptr<double>();
  at::parallel_for(0, batch * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t sample = row / count, i = row % count;
      const double* base = values + sample * count * size;
      for (int64_t j = 0; j <= i; ++j) {
        const double product = dot(base + i * size, base + j * size, size);
        out[(sample * count + i) * count + j] = product;
        out[(sample * count + j) * count + i] = product;
      }
    }
  });
  return grams;
}

}  // namespace bespoke
