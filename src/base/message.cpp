#include "bespoke/base/message.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "bespoke/base/text.h"

namespace bespoke::detail {

void write_to_stderr(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string one_line(const std::string& text) {
  constexpr size_t kLongest = 300;
  return shortened(printable(text), kLongest);
}

void guard_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this one. Opened the wrong way round, so that output is not taken
    // for written.
    const int taken = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (taken >= 0 && taken != stream) ::close(taken);
  }
}

}  // namespace bespoke::detail
