#pragma once

#include <string>
#include <vector>

#include "bespoke/path/schedule.h"

namespace bespoke {

// How a pipeline rounds the times that its network is given: not at all, to the nearest of so many
// equal levels of noise, or to the bfloat16 nearest to 1000 (1 - t). A solver distilled for the
// rounded times loses less than one whose times are rounded afterwards.
struct TimeRounding {
  enum class Kind { free, integer, bf16 };
  Kind kind = Kind::free;
  int levels = 1000;  // of integer

  bool is_free() const { return kind == Kind::free; }
};

// Reads "free", "integer", "integer:LEVELS" or "bf16".
TimeRounding parse_time_rounding(const std::string& text);
std::string to_string(const TimeRounding& rounding);

// Rounds t_0 ... t_n: each becomes the nearest time that can be used, all but t_n before t_n, none
// before `first` and none twice. A usage error where there are fewer such times than evaluations.
std::vector<double> rounded_times(const TimeRounding& rounding, const std::vector<double>& times,
                                  double first = 0);

// The same on a path whose network counts the times of another, of which it is a part: what is
// rounded is what the network is given. Times of a final denoising step stay as they are.
std::vector<double> rounded_times(const TimeRounding& rounding, const std::vector<double>& times,
                                  const Schedule& path);

}  // namespace bespoke
