#include "bespoke/measure/psnr.h"

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <cmath>

#include "bespoke/core/error.h"

namespace bespoke {

std::vector<double> mean_squared_errors(const torch::Tensor& x, const torch::Tensor& reference) {
  if (x.sizes() != reference.sizes()) {
    throw bad_input("cannot compare samples of shape {} with a reference of shape {}",
                    fmt::join(x.sizes(), "x"), fmt::join(reference.sizes(), "x"));
  }
  const auto difference =
      (x.to(torch::kCPU, torch::kDouble) - reference.to(torch::kCPU, torch::kDouble))
          .reshape({x.size(0), -1});
  const auto errors = difference.pow(2).mean(1).contiguous();
  return {errors.data_ptr<double>(), errors.data_ptr<double>() + errors.numel()};
}

double psnr(double mean_squared_error, double peak) {
  return 10 * std::log10(peak * peak / mean_squared_error);
}

double mean_psnr(const torch::Tensor& x, const torch::Tensor& reference, double peak) {
  double sum = 0;
  const auto errors = mean_squared_errors(x, reference);
  for (const double error : errors) sum += psnr(error, peak);
  return sum / static_cast<double>(errors.size());
}

}  // namespace bespoke
