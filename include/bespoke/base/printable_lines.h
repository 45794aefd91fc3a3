#pragma once

#include <string>

namespace bespoke::detail {

// Several lines as printable() shows each: for what names from files of others are put into.
std::string printable_lines(const std::string& text);

}  // namespace bespoke::detail
