#pragma once

#include <string>

namespace bespoke::detail {

// Shows several lines as printable() shows each: for texts that quote names from other people's
// files.
std::string printable_lines(const std::string& text);

}  // namespace bespoke::detail
