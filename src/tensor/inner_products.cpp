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

// [batch, numbers] or, with two leading dimensions, [batch, terms, numbers], float64.
torch::Tensor wide_rows(const torch::Tensor& tensor, size_t leading = 1) {
  std::vector<int64_t> shape(tensor.sizes().begin(), tensor.sizes().end());
  shape.resize(leading);
  shape.push_back(-1);
  return tensor.detach().reshape(shape).to(torch::kDouble).contiguous();
}

}  // namespace

torch::Tensor inner_products(const torch::Tensor& left, const std::vector<torch::Tensor>& right) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor wide = wide_rows(left);
  const int64_t batch = wide.size(0), size = wide.size(1);
  const auto terms = static_cast<int64_t>(right.size());
  torch::Tensor products = torch::empty({batch, terms}, wide.options());
  for (int64_t k = 0; k < terms; ++k) {
    const torch::Tensor other = wide_rows(right[static_cast<size_t>(k)]);
    if (!wide.device().is_cpu()) {
      products.select(1, k).copy_((wide * other).sum(1));
      continue;
    }
    const auto* a = wide.data_ptr<double>();
    const auto* b = other.data_ptr<double>();
    auto* out = products.data_ptr<double>() + k;
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i * terms] = dot(a + i * size, b + i * size, size);
    });
  }
  return products;
}

torch::Tensor column_products(const torch::Tensor& left, const torch::Tensor& columns) {
  if (left.device().is_cpu()) return inner_products(left, columns.unbind(1));
  const torch::NoGradGuard no_grad;
  return torch::bmm(wide_rows(columns, 2), wide_rows(left).unsqueeze(2)).squeeze(2);
}

torch::Tensor gram_matrices(const torch::Tensor& columns) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor all = wide_rows(columns, 2);
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
