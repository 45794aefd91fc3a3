#pragma once

#include <string>

namespace bespoke::detail {

// What went wrong, of a message of LibTorch's interpreter or compiler.
std::string last_error_line(const std::string& traceback);

}  // namespace bespoke::detail
