#pragma once

#include <string>

#include "bespoke/base/error.h"

namespace bespoke::testing {

// The message of the bad-input error that work() ends with; empty if it ends otherwise.
template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::bad_input ? error.what() : "";
  }
  return "";
}

}  // namespace bespoke::testing
