#include "bespoke/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"

namespace bespoke {

using namespace detail;

namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first signal asks for a tidy end, the second one ends a run that does not listen.
void on_signal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

std::string duration(double seconds) {
  const int64_t rounded = std::llround(seconds);
  return rounded < 60 ? fmt::format("{} s", rounded)
                      : fmt::format("{}:{:02} min", rounded / 60, rounded % 60);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // Who starts a program with nohup wants it to outlive the terminal.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool interrupt_requested() { return interrupted != 0; }

void throw_if_interrupted() {
  if (interrupt_requested()) throw Error(ErrorKind::interrupted, "interrupted");
}

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (drawn_ && terminal_) write_to_stderr("\r\033[K");
}

void Progress::update(double fraction) {
  throw_if_interrupted();
  show(fraction, "");
}

void Progress::show(double fraction, const std::string& note) {
  using Seconds = std::chrono::duration<double>;
  const auto now = std::chrono::steady_clock::now();
  const double interval = terminal_ ? 0.1 : 10;
  if (Seconds(now - last_).count() < interval) return;
  last_ = now;
  drawn_ = true;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const double elapsed = Seconds(now - start_).count();
  std::string left =
      fraction > 0 ? ", " + duration(elapsed * (1 - fraction) / fraction) + " left" : "";
  if (!note.empty()) left += ", " + note;
  if (terminal_) {
    constexpr int kWidth = 30;
    const auto full = static_cast<size_t>(fraction * kWidth);
    write_to_stderr(fmt::format("\r\033[K{} [{}{}] {:3.0f} %{}", label_, std::string(full, '#'),
                                std::string(kWidth - full, '.'), 100 * fraction, left));
  } else {
    say("{}: {:.0f} %{}", label_, 100 * fraction, left);
  }
}

}  // namespace bespoke
