#include "bespoke/core/psnr.h"

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <algorithm>
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

double mean_psnr(const std::vector<double>& mean_squared_errors, double peak) {
  double sum = 0;
  for (const double error : mean_squared_errors) sum += psnr(error, peak);
  return sum / static_cast<double>(mean_squared_errors.size());
}

double mean_psnr(const torch::Tensor& x, const torch::Tensor& reference, double peak) {
  return mean_psnr(mean_squared_errors(x, reference), peak);
}

double mean_snr(const std::vector<double>& mean_squared_errors, const std::vector<double>& powers) {
  double sum = 0;
  for (size_t i = 0; i < powers.size(); ++i) {
    sum += 10 * std::log10(powers[i] / mean_squared_errors[i]);
  }
  return sum / static_cast<double>(powers.size());
}

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace bespoke
