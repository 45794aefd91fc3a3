#include "bespoke/base/time_span.h"

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

TimeSpan parse_time_span(const std::string& text, const std::string& what) {
  // A sign before the first number is no separator.
  const size_t dash = text.find('-', 1);
  if (text.empty() || dash == std::string::npos) {
    throw usage_error("{} is FROM-TO in seconds, such as 0.8-1.4, found '{}'", what, text);
  }
  const TimeSpan span = {parse_number(text.substr(0, dash), what + " FROM"),
                         parse_number(text.substr(dash + 1), what + " TO")};
  if (!std::isfinite(span.from) || !std::isfinite(span.to) || !(span.from < span.to)) {
    throw usage_error("{} must rise from FROM to TO, found '{}'", what, text);
  }
  return span;
}

}  // namespace bespoke
