#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "bespoke/base/error.h"

namespace bespoke::detail {

// The mean squared difference of each of the samples from number `first` on, of the part that the
// mask counts, [count, ...]; of everything where it is undefined.
std::vector<double> masked_errors(const torch::Tensor& x, const torch::Tensor& expected,
                                  const torch::Tensor& mask, int64_t first);

// The same beside nothing: the power of each sample.
std::vector<double> masked_powers(const torch::Tensor& x, const torch::Tensor& mask, int64_t first);

// Of the mean of the errors' logarithms, in decibels, over `powers` where there are any; NaN where
// a sample is exact, and there is no mean that it could be the error of.
double standard_error_of(const std::vector<double>& errors, const std::vector<double>& powers = {});

// 0 of none.
double mean_of(const std::vector<double>& values);

// Runs work; whether it ended without anything becoming infinite.
template <class Work>
bool stays_finite(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    // One solver's failure is a result about that solver, not about the others.
    if (error.kind() != ErrorKind::diverged) throw;
    return false;
  }
}

}  // namespace bespoke::detail
