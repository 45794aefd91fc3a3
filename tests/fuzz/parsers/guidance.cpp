#include "bespoke/path/guidance_weight.h"

#include <nlohmann/json.hpp>

#include "fuzz/parser.h"

namespace bespoke::fuzz {

// A weight, and after a line break its interval.
static const Registered guidance("guidance", [](const std::string& bytes) {
  const size_t end = bytes.find('\n');
  GuidanceWeight weight = parse_guidance(bytes.substr(0, end), false, "--guidance");
  if (end != std::string::npos) {
    parse_guidance_interval(weight, bytes.substr(end + 1), "--guidance-interval");
  }
  expect(guidance_from_json(describe(weight), "guidance") == weight, "a weight reads back");
  expect(!to_string(weight).empty(), "a weight has words");
  weight.at(0.5);
  if (weight.range) weight.range->bins();
});

}  // namespace bespoke::fuzz
