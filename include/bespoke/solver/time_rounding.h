#pragma once

#include <string>
#include <vector>

namespace bespoke {

// How whoever runs a solver rounds the times it is given: not at all, to the nearest of so many
// equal levels of noise, or to the bfloat16 nearest to 1000 (1 - t). A solver distilled for the
// rounded times loses less than one whose times are rounded afterwards.
struct TimeRounding {
  enum class Kind { free, integer, bf16 };
  Kind kind = Kind::free;
  int levels = 1000;  // of integer

  bool is_free() const { return kind == Kind::free; }
};

// "free", "integer", "integer:LEVELS" or "bf16".
TimeRounding parse_time_rounding(const std::string& text);
std::string to_string(const TimeRounding& rounding);

// t_0 ... t_n as they will be used: each the nearest that can be said, all but t_n = 1 before 1,
// none said twice. A usage error where there are fewer such times than evaluations.
std::vector<double> rounded_times(const TimeRounding& rounding, const std::vector<double>& times);

}  // namespace bespoke
