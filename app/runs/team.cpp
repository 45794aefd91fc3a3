#include "runs/team.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "bespoke/base/message.h"

namespace bespoke {

using namespace detail;

namespace {

std::unique_ptr<Team>& joined() {
  static std::unique_ptr<Team> team;
  return team;
}

int spoken_to = STDERR_FILENO;  // of a silent member, where its last words go

void fall_silent() {
  spoken_to = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

}  // namespace

Team& team() { return joined() ? *joined() : alone(); }

void join_team() {
  joined() = join_mpi_team();
  if (!is_first()) fall_silent();
}

bool is_first() { return team().rank() == 0; }

std::string from_first(const std::function<std::string()>& work) {
  return exchange_work(team(), [&] { return is_first() ? work() : ""; }).front();
}

LocalPlace place_on_machine() { return local_place(team()); }

void say_alone(const std::string& message) {
  if (is_first()) return write_to_stderr(one_line(message) + "\n");
  // By then the first has said it, where it failed too, and ended this one.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const std::string line = one_line(fmt::format("{} (process {})", message, team().rank())) + "\n";
  if (write(spoken_to, line.data(), line.size()) < 0) return;
}

int end_team(int exit_code) {
  if (team().size() > 1 && exit_code != 0) abort_mpi_team(exit_code);
  joined().reset();
  return exit_code;
}

}  // namespace bespoke
