#pragma once

#include <string>
#include <vector>

namespace bespoke {

// Marks of an axis: multiples of 1, 2 or 5 times a power of ten, about `wanted` of them. They begin
// at or below `least` and end at or above `most`.
std::vector<double> axis_ticks(double least, double most, int wanted);

// The shortest text of a tick; of a count, with k for thousands and M for millions.
std::string tick_text(double value);
std::string count_text(double value);

}  // namespace bespoke
