#include "bespoke/base/error.h"
#include "bespoke/distill/direct.h"
#include "bespoke/solver/time_rounding.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

// What --direct and --times take.
static const Registered settings("settings", [](const std::string& bytes) {
  try {
    const TimeRounding rounding = parse_time_rounding(bytes);
    expect(to_string(parse_time_rounding(to_string(rounding))) == to_string(rounding),
           "a rounding reads back");
    rounded_times(rounding, {0, 0.2, 0.4, 1});
  } catch (const Error&) {
    parse_direct_options(bytes);
  }
});

}  // namespace bespoke::fuzz
