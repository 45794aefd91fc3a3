#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace bespoke {

// What went wrong, as the exit code the command line ends with.
enum class ErrorKind {
  failed = 1,
  usage = 2,
  bad_input = 3,
  device = 4,
  diverged = 5,
  interrupted = 130,
};

// Every error a user can cause. The message is one sentence that says what was wrong, what was
// found and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// The two kinds that validation throws everywhere, with a format string.
template <class... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::usage, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Error bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::bad_input, fmt::format(format, std::forward<Args>(args)...));
}

// Whether LibTorch or the standard library said that memory ran out.
bool is_out_of_memory(const std::exception& error);

}  // namespace bespoke
