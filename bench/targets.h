#pragma once

#include <string>
#include <vector>

namespace bespoke::bench {

enum class Bound { at_least, at_most };

// A figure the library promises, in percent.
struct Target {
  std::string what;
  Bound bound;
  double percent;
};

// Notes one measurement of a target, as a fraction. The table shows the median of all of them, so
// one disturbed run does not decide.
void record(const Target& target, double fraction);

// The table of all targets measured: what, measured, target, met.
void print_targets();

double median(std::vector<double> values);

}  // namespace bespoke::bench
