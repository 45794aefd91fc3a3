#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace bespoke {

// The one operation every solver step is made of: out = sum_j c_j term_j, on the CPU in a single
// pass over memory. Terms may be of any floating type; the sum is taken in double precision on the
// CPU and in out's own type on other devices. `out` is float32 or float64, contiguous, and may be
// one of the terms. Every element is summed in the same order whatever the batch size and thread
// count. Returns whether the whole result is finite, for which it waits for a device.
bool combine(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
             const std::vector<double>& coefficients);

// Does the same with a coefficient of its own for each sample: coefficients[j][sample]. Waits for
// no device.
void combine_per_sample(torch::Tensor& out, const std::vector<torch::Tensor>& terms,
                        const std::vector<std::vector<double>>& coefficients);

// Computes for each sample the root mean square of (sum_j c_j term_j) / (atol + rtol max(|left|,
// |right|)), the norm in which adaptive solvers measure error. Terms and states are float64.
std::vector<double> scaled_norms(const std::vector<torch::Tensor>& terms,
                                 const std::vector<std::vector<double>>& coefficients,
                                 const torch::Tensor& left, const torch::Tensor& right, double rtol,
                                 double atol);

// Reshapes [batch] to [batch, 1, 1, ...], to multiply with a tensor of `dimensions` dimensions.
torch::Tensor per_sample(const torch::Tensor& values, int64_t dimensions);

}  // namespace bespoke
