#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace bespoke {

// What went wrong, as the exit code the command line ends with.
enum class ErrorKind {
  failed = 1,         // something beyond the user's reach, such as a full disk
  usage = 2,          // options that make no sense, alone or together
  bad_input = 3,      // a file, a model or data that cannot be used
  device = 4,         // a device that is not there or has too little memory
  diverged = 5,       // numbers that stopped being finite
  interrupted = 130,  // a stop that the user asked for
};

// Every error a user can cause. The message is one sentence that says what was wrong, what was
// found and what to do about it.
class Error : public std::runtime_error {
 public:
  // An error of this kind; the message is shown to the user as it is.
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  // What went wrong.
  ErrorKind kind() const { return kind_; }
  // The exit code of a program that ends with this error.
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// An error of the kind `usage`, its message made with a format string.
template <class... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::usage, fmt::format(format, std::forward<Args>(args)...));
}

// An error of the kind `bad_input`, its message made with a format string.
template <class... Args>
Error bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::bad_input, fmt::format(format, std::forward<Args>(args)...));
}

// Whether LibTorch or the standard library said that memory ran out.
bool is_out_of_memory(const std::exception& error);

}  // namespace bespoke
