#pragma once

#include <string>

namespace bespoke {

// A stretch of a sound, in seconds.
struct TimeSpan {
  double from = 0, to = 0;
};

// Reads "0.8-1.4"; throws a usage error that names `what`.
TimeSpan parse_time_span(const std::string& text, const std::string& what);

}  // namespace bespoke
