#include "ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bespoke {

namespace {

double round_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::vector<double> axis_ticks(double least, double most, int wanted) {
  if (!(most > least)) most = least + 1;
  const double step = round_step((most - least) / wanted);
  const auto first = std::llround(std::floor(least / step + 1e-9));
  const auto last = std::llround(std::ceil(most / step - 1e-9));
  std::vector<double> ticks;
  for (auto k = first; k <= last; ++k) ticks.push_back(static_cast<double>(k) * step);
  return ticks;
}

std::string tick_text(double value) {
  // Steps such as 0.1 leave a trace of rounding in the fifteenth digit.
  return fmt::format("{:.10g}", value);
}

std::string count_text(double value) {
  if (value >= 1e6) return tick_text(value / 1e6) + "M";
  return value >= 1e3 ? tick_text(value / 1e3) + "k" : tick_text(value);
}

}  // namespace bespoke
