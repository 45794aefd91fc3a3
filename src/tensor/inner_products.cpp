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

}  // namespace

torch::Tensor inner_products(const torch::Tensor& left, const std::vector<torch::Tensor>& right) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor wide = rows_of(left);
  const int64_t batch = wide.size(0), size = wide.size(1);
  const auto terms = static_cast<int64_t>(right.size());
  torch::Tensor products = torch::empty({batch, terms}, wide.options());
  for (int64_t k = 0; k < terms; ++k) {
    const torch::Tensor other = rows_of(right[static_cast<size_t>(k)]);
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

}  // namespace bespoke
