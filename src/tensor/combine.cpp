#include "bespoke/tensor/combine.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "bespoke/tensor/transfer.h"

namespace bespoke {

namespace {

// Vector code for the machine at hand, chosen when the program is loaded. Each element's sum keeps
// its order and nothing is fused, so all versions give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BESPOKE_VECTOR_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BESPOKE_VECTOR_VERSIONS
#endif

constexpr int64_t kBlock = 1024;  // doubles of scratch that stay in the first-level cache
using Scratch = std::array<double, kBlock>;

// A tensor's values by address, whatever their type.
struct Source {
  const void* data;
  torch::ScalarType type;
};

// sum (+)= c_0 v_0 + c_1 v_1 + ..., added in this order. The terms are read side by side, each by a
// load instruction of its own, so that the processor can fetch ahead in all of them: block after
// block of one term, then of the next, runs at half the speed.
template <class T, size_t N>
BESPOKE_VECTOR_VERSIONS void accumulate(double* sum, bool fresh, const Source* sources,
                                        const double* coefficients, int64_t offset, int64_t count) {
  const T* values[N];
  double factors[N];
  for (size_t j = 0; j < N; ++j) {
    values[j] = static_cast<const T*>(sources[j].data) + offset;
    factors[j] = coefficients[j];
  }
  const auto add = [&](double total, int64_t i) {
    for (size_t j = 0; j < N; ++j) total += factors[j] * static_cast<double>(values[j][i]);
    return total;
  };
  if (fresh) {  // NOLINT(bugprone-branch-clone): the sums begin differently
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] = add(0, i);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] = add(sum[i], i);
  }
}

constexpr size_t kMostTogether = 9;  // x_0 and eight velocities
using Accumulate = void (*)(double*, bool, const Source*, const double*, int64_t, int64_t);
using AccumulateByCount = std::array<Accumulate, kMostTogether>;

template <class T, size_t... I>
constexpr AccumulateByCount accumulate_by_count(std::index_sequence<I...>) {
  return {accumulate<T, I + 1>...};
}

template <class T>
Accumulate accumulate_of(size_t terms) {
  static constexpr AccumulateByCount table =
      accumulate_by_count<T>(std::make_index_sequence<kMostTogether>());
  return table[terms - 1];
}

Accumulate accumulate_of(torch::ScalarType type, size_t terms) {
  switch (type) {
    case torch::kFloat:
      return accumulate_of<float>(terms);
    case torch::kDouble:
      return accumulate_of<double>(terms);
    case torch::kHalf:
      return accumulate_of<c10::Half>(terms);
    case torch::kBFloat16:
      return accumulate_of<c10::BFloat16>(terms);
    default:
      throw std::logic_error("combine: terms must be floating point");
  }
}

void sum_block(Scratch& sum, const std::vector<Source>& sources,
               const std::vector<double>& coefficients, int64_t offset, int64_t count) {
  for (size_t j = 0; j < sources.size();) {
    size_t terms = 1;
    while (terms < kMostTogether && j + terms < sources.size() &&
           sources[j + terms].type == sources[j].type) {
      ++terms;
    }
    accumulate_of(sources[j].type, terms)(sum.data(), j == 0, &sources[j], &coefficients[j], offset,
                                          count);
    j += terms;
  }
}

// Writes the block and returns whether it is finite: x - x is zero for finite x, NaN otherwise.
template <class T>
BESPOKE_VECTOR_VERSIONS bool store(const Scratch& sum, T* out, int64_t count) {
  T residue = 0;
#pragma omp simd reduction(+ : residue)
  for (int64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(sum[static_cast<size_t>(i)]);
    out[i] = value;
    residue += value - value;  // NOLINT(misc-redundant-expression): NaN unless finite
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
    std::vector<double> coefficients(sources.size());
    bool all = true;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block / blocks_per_row;
      const int64_t within = (block % blocks_per_row) * kBlock;
      const int64_t count = std::min(kBlock, row_size - within);
      const int64_t offset = row * row_size + within;
      for (size_t j = 0; j < sources.size(); ++j) coefficients[j] = coefficient(j, row);
      sum_block(sum, sources, coefficients, offset, count);
      all = store_any(sum, out, offset, count) && all;
    }
    if (!all) finite = false;
  };
  constexpr int64_t kBlocksPerTask = 16;
  at::parallel_for(0, rows * blocks_per_row, kBlocksPerTask, work);
  return finite;
}

std::vector<Source> sources_of(const std::vector<torch::Tensor>& terms, const torch::Tensor& out,
                               std::vector<torch::Tensor>& keep) {
  const bool wide = out.scalar_type() == torch::kFloat || out.scalar_type() == torch::kDouble;
  if (!wide || !out.is_contiguous())
    throw std::logic_error("combine: out must be float32 or float64");
  std::vector<Source> sources;
  for (const auto& term : terms) {
    if (term.numel() != out.numel()) throw std::logic_error("combine: terms differ in size");
    keep.push_back(term.contiguous());
    sources.push_back({keep.back().data_ptr(), term.scalar_type()});
  }
  return sources;
}

bool all_finite(const torch::Tensor& tensor) { return torch::isfinite(tensor).all().item<bool>(); }

// Elsewhere than on the CPU the same sum by LibTorch's own kernels, one for each term, without
// waiting for any.
torch::Tensor device_sum(const std::vector<torch::Tensor>& terms,
                         const std::vector<std::vector<double>>& coefficients,
                         const torch::Tensor& like) {
  std::vector<torch::Tensor> rows;
  for (const auto& row : coefficients) rows.push_back(torch::tensor(row, torch::kDouble));
  const auto factors = copied_to(torch::stack(rows), like.device(), like.scalar_type()).unbind();
  torch::Tensor sum = torch::zeros_like(like);
  for (size_t j = 0; j < terms.size(); ++j) {
    sum.addcmul_(terms[j].to(like.scalar_type()), per_sample(factors[j], like.dim()));
  }
  return sum;
}

}  // namespace

torch::Tensor per_sample(const torch::Tensor& values, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[0] = values.size(0);
  return values.reshape(shape);
}

static bool combine_here(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
                         const std::vector<double>& coefficients) {
  std::vector<torch::Tensor> keep;
  // One row: the coefficients are the same everywhere.
  return combine_rows(out, sources_of(terms, out, keep), 1, out.numel(),
                      [&](size_t j, int64_t) { return coefficients[j]; });
}

bool combine(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
             const std::vector<double>& coefficients) {
  if (out.device().is_cpu()) return combine_here(out, terms, coefficients);
  torch::Tensor sum = terms[0].to(out.scalar_type()) * coefficients[0];
  for (size_t j = 1; j < terms.size(); ++j) {
    sum.add_(terms[j].to(out.scalar_type()), coefficients[j]);
  }
  out.copy_(sum);
  return all_finite(out);
}

void combine_per_sample(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
                        const std::vector<std::vector<double>>& coefficients) {
  if (!out.device().is_cpu()) {
    out.copy_(device_sum(terms, coefficients, out));
    return;
  }
  std::vector<torch::Tensor> keep;
  const int64_t rows = out.size(0);
  combine_rows(out, sources_of(terms, out, keep), rows, out.numel() / std::max<int64_t>(rows, 1),
               [&](size_t j, int64_t row) { return coefficients[j][static_cast<size_t>(row)]; });
}

static double row_norm(const std::vector<Source>& sources,
                       const std::vector<std::vector<double>>& coefficients, const double* left,
                       const double* right, int64_t row, int64_t row_size, double rtol,
                       double atol) {
  std::vector<double> row_coefficients;
  for (const auto& term : coefficients) row_coefficients.push_back(term[static_cast<size_t>(row)]);
  Scratch sum;
  double total = 0;
  for (int64_t within = 0; within < row_size; within += kBlock) {
    const int64_t count = std::min(kBlock, row_size - within);
    const int64_t offset = row * row_size + within;
    sum_block(sum, sources, row_coefficients, offset, count);
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
  const auto sources = sources_of(terms, left, keep);
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
