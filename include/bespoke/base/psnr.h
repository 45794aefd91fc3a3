#pragma once

#include <vector>

namespace bespoke {

// Peak-to-peak range of data in [-1, 1].
constexpr double kUnitPeak = 2.0;

// 10 log10(peak^2 / mse) in decibels; infinite where x and reference are equal.
double psnr(double mean_squared_error, double peak = kUnitPeak);

// The mean PSNR from the mean logarithm of the mean squared errors.
double psnr_of_loss(double loss, double peak = kUnitPeak);

// The standard error of that mean, from the logarithms it is of; 0 of a single one.
double psnr_error(const std::vector<double>& log_errors);

// The mean over values of their PSNR, and of their ratio to the power of the signal they are errors
// of, in decibels.
double mean_psnr(const std::vector<double>& mean_squared_errors, double peak = kUnitPeak);
double mean_snr(const std::vector<double>& mean_squared_errors, const std::vector<double>& powers);

// The value that a fraction of the values lies below, linear between neighbours.
double quantile(std::vector<double> values, double fraction);

}  // namespace bespoke
