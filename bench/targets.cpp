#include "targets.h"

#include <fmt/format.h>

#include <algorithm>

namespace bespoke::bench {

namespace {

struct Measured {
  Target target;
  std::vector<double> fractions;
};

// In the order they were first measured.
std::vector<Measured>& all_measured() {
  static std::vector<Measured> measured;
  return measured;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

void record(const Target& target, double fraction) {
  auto& measured = all_measured();
  auto found = std::find_if(measured.begin(), measured.end(), [&](const Measured& entry) {
    return entry.target.what == target.what;
  });
  if (found == measured.end()) found = measured.insert(measured.end(), {target, {}});
  found->fractions.push_back(fraction);
}

void print_targets() {
  const auto& measured = all_measured();
  if (measured.empty()) return;
  size_t width = 0;
  for (const auto& entry : measured) width = std::max(width, entry.target.what.size());
  fmt::print("\n{:<{}}  {:>9}  {:>10}  met\n", "target", width, "measured", "wanted");
  for (const auto& [target, fractions] : measured) {
    const bool least = target.bound == Bound::at_least;
    const double percent = 100 * median(fractions);
    const bool met = least ? percent >= target.percent : percent <= target.percent;
    fmt::print("{:<{}}  {:>7.1f} %  {} {:>5.0f} %  {}\n", target.what, width, percent,
               least ? ">=" : "<=", target.percent, met ? "yes" : "no");
  }
}

}  // namespace bespoke::bench
