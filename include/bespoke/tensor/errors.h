#pragma once

#include <torch/types.h>

#include <vector>

#include "bespoke/base/psnr.h"

namespace bespoke {

// The mean squared difference from `reference` for each sample of x [batch, ...].
std::vector<double> mean_squared_errors(const torch::Tensor& x, const torch::Tensor& reference);

// The mean over samples of their PSNR, which is what distillation maximises.
double mean_psnr(const torch::Tensor& x, const torch::Tensor& reference, double peak = kUnitPeak);

}  // namespace bespoke
