#include "bespoke/tensor/noise.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "bespoke/base/random.h"

namespace bespoke {

namespace {

// [count, shape...], each sample filled by fill(index within the batch, its values, their number).
template <class Fill>
torch::Tensor filled(int64_t count, const std::vector<int64_t>& shape, Fill fill) {
  std::vector<int64_t> full = {count};
  full.insert(full.end(), shape.begin(), shape.end());
  torch::Tensor values = torch::empty(full, torch::kDouble);
  const int64_t size = count == 0 ? 0 : values.numel() / count;
  auto* data = values.data_ptr<double>();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fill(static_cast<uint64_t>(i), data + i * size, size);
  });
  return values;
}

}  // namespace

torch::Tensor normal_noise(uint64_t seed, uint64_t first, int64_t count,
                           const std::vector<int64_t>& shape) {
  return filled(count, shape, [&](uint64_t i, double* out, int64_t size) {
    fill_normal(seed, first + i, out, size);
  });
}

}  // namespace bespoke
