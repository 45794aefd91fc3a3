#pragma once

#include <string>

#include "bespoke/base/error.h"

namespace bespoke::testing {

// The message of the error of this kind that work() ends with; empty if it ends otherwise.
template <class Work>
std::string refusal(const Work& work, ErrorKind kind = ErrorKind::bad_input) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind() == kind ? error.what() : "";
  }
  return "";
}

}  // namespace bespoke::testing
