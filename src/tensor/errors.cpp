#include "bespoke/tensor/errors.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/tensor/inner_products.h"

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

double mean_psnr(const torch::Tensor& x, const torch::Tensor& reference, double peak) {
  return mean_psnr(mean_squared_errors(x, reference), peak);
}

}  // namespace bespoke
