#include "sample_errors.h"

#include <torch/torch.h>

#include <cmath>
#include <numeric>

#include "bespoke/base/psnr.h"
#include "bespoke/tensor/errors.h"

namespace bespoke::detail {

std::vector<double> masked_errors(const torch::Tensor& x, const torch::Tensor& expected,
                                  const torch::Tensor& mask, int64_t first) {
  if (!mask.defined()) return mean_squared_errors(x, expected);
  const torch::Tensor weights = mask.slice(0, first, first + x.size(0)).to(x.device());
  const torch::Tensor whole = weights.expand_as(x).flatten(1).to(torch::kCPU, torch::kDouble);
  const torch::Tensor parts = whole.mean(1).contiguous();
  auto errors = mean_squared_errors(x * weights, expected * weights);
  for (size_t i = 0; i < errors.size(); ++i) errors[i] /= parts.data_ptr<double>()[i];
  return errors;
}

std::vector<double> masked_powers(const torch::Tensor& x, const torch::Tensor& mask,
                                  int64_t first) {
  return masked_errors(x, torch::zeros_like(x), mask, first);
}

double standard_error_of(const std::vector<double>& errors, const std::vector<double>& powers) {
  std::vector<double> logs;
  for (size_t i = 0; i < errors.size(); ++i) {
    logs.push_back(std::log(errors[i] / (powers.empty() ? 1 : powers[i])));
  }
  return psnr_error(logs);
}

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace bespoke::detail
