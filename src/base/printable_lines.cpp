#include "bespoke/base/printable_lines.h"

#include <fmt/ranges.h>

#include <vector>

#include "bespoke/base/text.h"

namespace bespoke::detail {

std::string printable_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const auto& line : split(text, '\n')) lines.push_back(printable(line));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace bespoke::detail
