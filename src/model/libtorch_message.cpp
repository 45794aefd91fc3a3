#include "libtorch_message.h"

#include "bespoke/base/text.h"

namespace bespoke::detail {

// The interpreter prints a traceback; what went wrong is its last line that says something. The
// frames of LibTorch's own stack, which may follow, say nothing to a user.
std::string last_error_line(const std::string& traceback) {
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  std::string last;
  for (const auto& line : split(traceback, '\n')) {
    if (contains(line, "Exception raised from") || line.rfind("frame #", 0) == 0) break;
    if (last.empty() || contains(line, "Error") || contains(line, "Expected")) last = line;
  }
  const std::string interpreters = "RuntimeError: ";
  if (last.rfind(interpreters, 0) == 0) last = last.substr(interpreters.size());
  last.erase(last.find_last_not_of(' ') + 1);
  // "AssertionError: ", with nothing behind it.
  return last.empty() || last.back() == ':' ? "it gave no reason" : last;
}

}  // namespace bespoke::detail
