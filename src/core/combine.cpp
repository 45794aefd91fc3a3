#include "bespoke/core/combine.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace bespoke {

namespace {

constexpr int64_t kBlock = 1024;  // doubles of scratch that stay in the first-level cache
using Scratch = std::array<double, kBlock>;

// A tensor's values by address, whatever their type.
struct Source {
  const char* data;
  torch::ScalarType type;
  int64_t item_size;
};

Source source_of(const torch::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.scalar_type(), tensor.element_size()};
}

template <class T>
void accumulate(Scratch& sum, const char* data, int64_t count, double coefficient, bool first) {
  const T* values = reinterpret_cast<const T*>(data);
  if (first) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      sum[static_cast<size_t>(i)] = coefficient * static_cast<double>(values[i]);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      sum[static_cast<size_t>(i)] += coefficient * static_cast<double>(values[i]);
    }
  }
}

void accumulate_any(Scratch& sum, const Source& source, int64_t offset, int64_t count,
                    double coefficient, bool first) {
  const char* data = source.data + offset * source.item_size;
  switch (source.type) {
    case torch::kFloat: return accumulate<float>(sum, data, count, coefficient, first);
    case torch::kDouble: return accumulate<double>(sum, data, count, coefficient, first);
    case torch::kHalf: return accumulate<c10::Half>(sum, data, count, coefficient, first);
    case torch::kBFloat16: return accumulate<c10::BFloat16>(sum, data, count, coefficient, first);
    default: throw std::logic_error("combine: terms must be floating point");
  }
}

// Writes the block and returns whether it is finite: x - x is zero for finite x, NaN otherwise.
template <class T>
bool store(const Scratch& sum, T* out, int64_t count) {
  T residue = 0;
#pragma omp simd reduction(+ : residue)
  for (int64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(sum[static_cast<size_t>(i)]);
    out[i] = value;
    residue += value - value;
  }
  return residue == 0;
}

bool store_any(const Scratch& sum, const torch::Tensor& out, int64_t offset, int64_t count) {
  return out.scalar_type() == torch::kDouble
             ? store(sum, static_cast<double*>(out.data_ptr()) + offset, count)
             : store(sum, static_cast<float*>(out.data_ptr()) + offset, count);
}

// Rows are samples; coefficient(j, row) is c_j there. Work is cut into blocks that never cross a
// row, so the cut does not depend on the batch.
template <class Coefficient>
bool combine_rows(torch::Tensor& out, const std::vector<Source>& sources, int64_t rows,
                  int64_t row_size, Coefficient coefficient) {
  const int64_t blocks_per_row = (row_size + kBlock - 1) / kBlock;
  std::atomic<bool> finite{true};
  const auto work = [&](int64_t begin, int64_t end) {
    Scratch sum;
    bool all = true;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block / blocks_per_row;
      const int64_t within = (block % blocks_per_row) * kBlock;
      const int64_t count = std::min(kBlock, row_size - within);
      const int64_t offset = row * row_size + within;
      for (size_t j = 0; j < sources.size(); ++j) {
        accumulate_any(sum, sources[j], offset, count, coefficient(j, row), j == 0);
      }
      all = store_any(sum, out, offset, count) && all;
    }
    if (!all) finite = false;
  };
  constexpr int64_t kBlocksPerTask = 16;
  at::parallel_for(0, rows * blocks_per_row, kBlocksPerTask, work);
  return finite;
}

std::vector<Source> sources_of(const std::vector<torch::Tensor>& terms,
                               std::vector<torch::Tensor>& keep) {
  std::vector<Source> sources;
  for (const auto& term : terms) {
    keep.push_back(term.contiguous());
    sources.push_back(source_of(keep.back()));
  }
  return sources;
}

torch::Tensor on_device(const std::vector<double>& values, const torch::Tensor& like) {
  return torch::tensor(values, torch::kDouble).to(like.device(), like.scalar_type());
}

bool all_finite(const torch::Tensor& tensor) {
  return torch::isfinite(tensor).all().item<bool>();
}

// Elsewhere than on the CPU the same sum by LibTorch's own kernels.
torch::Tensor device_sum(const std::vector<torch::Tensor>& terms,
                         const std::vector<std::vector<double>>& coefficients,
                         const torch::Tensor& like) {
  torch::Tensor sum;
  for (size_t j = 0; j < terms.size(); ++j) {
    const auto factor = per_sample(on_device(coefficients[j], like), like.dim());
    const auto product = terms[j].to(like.scalar_type()) * factor;
    sum = j == 0 ? product : sum.add_(product);
  }
  return sum;
}

}  // namespace

torch::Tensor per_sample(const torch::Tensor& values, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[0] = values.size(0);
  return values.reshape(shape);
}

bool combine(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
             const std::vector<double>& coefficients) {
  if (!out.device().is_cpu()) {
    torch::Tensor sum = terms[0].to(out.scalar_type()) * coefficients[0];
    for (size_t j = 1; j < terms.size(); ++j) {
      sum.add_(terms[j].to(out.scalar_type()), coefficients[j]);
    }
    out.copy_(sum);
    return all_finite(out);
  }
  std::vector<torch::Tensor> keep;
  // One row: the coefficients are the same everywhere.
  return combine_rows(out, sources_of(terms, keep), 1, out.numel(),
                      [&](size_t j, int64_t) { return coefficients[j]; });
}

bool combine_per_sample(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
                        const std::vector<std::vector<double>>& coefficients) {
  if (!out.device().is_cpu()) {
    out.copy_(device_sum(terms, coefficients, out));
    return all_finite(out);
  }
  std::vector<torch::Tensor> keep;
  const int64_t rows = out.size(0);
  return combine_rows(out, sources_of(terms, keep), rows, out.numel() / std::max<int64_t>(rows, 1),
                      [&](size_t j, int64_t row) {
                        return coefficients[j][static_cast<size_t>(row)];
                      });
}

static double row_norm(const std::vector<Source>& sources,
                       const std::vector<std::vector<double>>& coefficients, const double* left,
                       const double* right, int64_t row, int64_t row_size, double rtol,
                       double atol) {
  Scratch sum;
  double total = 0;
  for (int64_t within = 0; within < row_size; within += kBlock) {
    const int64_t count = std::min(kBlock, row_size - within);
    const int64_t offset = row * row_size + within;
    for (size_t j = 0; j < sources.size(); ++j) {
      accumulate_any(sum, sources[j], offset, count, coefficients[j][static_cast<size_t>(row)],
                     j == 0);
    }
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::max(std::abs(left[offset + i]), std::abs(right[offset + i]));
      const double ratio = sum[static_cast<size_t>(i)] / (atol + rtol * size);
      total += ratio * ratio;
    }
  }
  return std::sqrt(total / static_cast<double>(row_size));
}

std::vector<double> scaled_norms(const std::vector<torch::Tensor>& terms,
                                 const std::vector<std::vector<double>>& coefficients,
                                 const torch::Tensor& left, const torch::Tensor& right, double rtol,
                                 double atol) {
  const int64_t rows = left.size(0);
  std::vector<double> norms(static_cast<size_t>(rows));
  if (!left.device().is_cpu()) {
    const auto scale = atol + rtol * torch::maximum(left.abs(), right.abs());
    const auto ratio = (device_sum(terms, coefficients, left) / scale).reshape({rows, -1});
    const auto values = ratio.pow(2).mean(1).sqrt().to(torch::kCPU, torch::kDouble).contiguous();
    std::copy_n(values.data_ptr<double>(), rows, norms.begin());
    return norms;
  }
  std::vector<torch::Tensor> keep;
  const auto sources = sources_of(terms, keep);
  const auto* left_data = left.data_ptr<double>();
  const auto* right_data = right.data_ptr<double>();
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      norms[static_cast<size_t>(row)] = row_norm(sources, coefficients, left_data, right_data, row,
                                                 left.numel() / rows, rtol, atol);
    }
  });
  return norms;
}

}  // namespace bespoke
