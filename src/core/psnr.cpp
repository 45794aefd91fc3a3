#include "bespoke/core/psnr.h"

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <cmath>

#include "bespoke/core/error.h"
#include "bespoke/core/inner_products.h"

namespace bespoke {

std::vector<double> mean_squared_errors(const torch::Tensor& x, const torch::Tensor& reference) {
  if (x.sizes() != reference.sizes()) {
    throw bad_input("cannot compare samples of shape {} with a reference of shape {}",
                    fmt::join(x.sizes(), "x"), fmt::join(reference.sizes(), "x"));
  }
  const torch::Tensor difference =
      x.to(torch::kCPU, torch::kDouble) - reference.to(torch::kCPU, torch::kDouble);
  const torch::Tensor squares = inner_products(difference, {difference});
  std::vector<double> errors(squares.data_ptr<double>(),
                             squares.data_ptr<double>() + squares.numel());
  for (double& error : errors)
    error *= static_cast<double>(x.size(0)) / static_cast<double>(x.numel());
  return errors;
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
