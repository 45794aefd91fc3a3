#include "bespoke/base/psnr.h"

#include <algorithm>
#include <cmath>

namespace bespoke {

double psnr(double mean_squared_error, double peak) {
  return 10 * std::log10(peak * peak / mean_squared_error);
}

double psnr_of_loss(double loss, double peak) { return psnr(std::exp(loss), peak); }

double psnr_error(const std::vector<double>& log_errors) {
  const auto count = static_cast<double>(log_errors.size());
  if (count < 2) return 0;
  double sum = 0, squares = 0;
  for (const double error : log_errors) sum += error;
  for (const double error : log_errors) squares += (error - sum / count) * (error - sum / count);
  return 10 / std::log(10.0) * std::sqrt(squares / (count - 1) / count);
}

double mean_psnr(const std::vector<double>& mean_squared_errors, double peak) {
  double sum = 0;
  for (const double error : mean_squared_errors) sum += psnr(error, peak);
  return sum / static_cast<double>(mean_squared_errors.size());
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
