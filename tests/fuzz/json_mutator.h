#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bespoke::fuzz {

// A JSON document with one to four things wrong with it, the same ones for the same seed: a value
// of another kind or at the end of what numbers can be, a key that is gone, renamed or there twice,
// two values that have changed places, a list that is longer or shorter, a part of another
// document. Random bytes seldom get past the syntax; this always does. A text that is no JSON comes
// back with some bytes changed.
std::string mutated_json(const std::string& text, const std::vector<std::string>& others,
                         uint64_t seed);

}  // namespace bespoke::fuzz
