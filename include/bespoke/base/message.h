#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace bespoke::detail {

// Writes to stderr as it is. What cannot be written is dropped: a closed or full stderr must not
// cost the work that it speaks of.
void write_to_stderr(const std::string& text);

// Makes one line of at most 300 characters in which nothing acts on the terminal.
std::string one_line(const std::string& text);

// Writes one line for people to stderr.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_to_stderr(one_line(fmt::format(format, std::forward<Args>(args)...)) + "\n");
}

// Makes sure that no file opened later takes the number of a standard stream that was closed before
// the program began, whose messages it would get, and that neither a reader who goes away nor a
// file that may not grow further ends a run: the write fails and is reported.
void guard_standard_streams();

}  // namespace bespoke::detail
