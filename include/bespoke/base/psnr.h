#pragma once

#include <vector>

namespace bespoke {

// The peak-to-peak range of data in [-1, 1].
constexpr double kUnitPeak = 2.0;

// The PSNR of a mean squared error, 10 log10(peak^2 / error) in decibels; infinite for an error of
// 0.
double psnr(double mean_squared_error, double peak = kUnitPeak);

// The mean PSNR from the mean logarithm of the mean squared errors.
double psnr_of_loss(double loss, double peak = kUnitPeak);

// The standard error of that mean, from the logarithms of the single errors; 0 for one alone.
double psnr_error(const std::vector<double>& log_errors);

// The mean PSNR of several mean squared errors, in decibels.
double mean_psnr(const std::vector<double>& mean_squared_errors, double peak = kUnitPeak);
// The mean SNR of several mean squared errors, each relative to the power of its own signal, in
// decibels.
double mean_snr(const std::vector<double>& mean_squared_errors, const std::vector<double>& powers);

// The value below which this fraction of the values lies, linear between neighbours.
double quantile(std::vector<double> values, double fraction);

}  // namespace bespoke
