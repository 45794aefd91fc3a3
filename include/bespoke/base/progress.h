#pragma once

#include <chrono>
#include <string>

namespace bespoke {

// Progress of one long piece of work, on stderr: a bar that redraws itself on a terminal, a line
// now and then elsewhere. Also where Ctrl-C takes effect: update() throws (interrupted) after one.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();  // clears the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double fraction);
  // The same with a note beside the bar, and without throwing: for work that ends tidily by itself.
  void show(double fraction, const std::string& note);

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

// From now on Ctrl-C, termination and the end of the terminal set a flag instead of ending the
// process at once.
void catch_interrupts();
bool interrupt_requested();
void throw_if_interrupted();

}  // namespace bespoke
