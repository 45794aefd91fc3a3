// Before LibTorch is loaded: looks whether there is memory enough to begin with, and says how
// OpenMP's threads are to wait.
//
// OpenBLAS asks for its memory when it is loaded, before main, and where a limit of the shell
// refuses it asks again for ever. So the program that is linked with it cannot look itself.
//
// A thread of GCC's OpenMP library that has nothing to do spins for many milliseconds before it
// sleeps. Two programs on the same cores keep each other from them so: together they take many
// times as long as one after the other. The library reads how to wait when it is loaded, before
// main, so that program cannot say this either.

#include "program/launch.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/started_together.h"
#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr rlim_t kMegabyte = 1 << 20;

// What a limit must leave for the libraries to be loaded, measured with LibTorch 1.13 and OpenBLAS
// 0.3.21 and rounded up: 0.72 GB and 0.14 GB a thread of addresses, most of them never touched.
struct Limit {
  decltype(RLIMIT_AS) resource;
  const char* option;  // of the shell's ulimit
  rlim_t base, each_thread;
};
constexpr Limit kLimits[] = {{RLIMIT_AS, "-v", 900 * kMegabyte, 160 * kMegabyte},
                             {RLIMIT_DATA, "-d", 400 * kMegabyte, 120 * kMegabyte}};

// As OpenMP takes them: a whole number, or one for each core that this process may use.
rlim_t threads_at_the_start() {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  const long number = asked == nullptr ? 0 : std::strtol(asked, nullptr, 10);
  if (number > 0) return static_cast<rlim_t>(number);
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<rlim_t>(CPU_COUNT(&set)) : 1;
}

// Throws an error that says what is needed where a limit is too low.
void require_memory_to_begin() {
  const rlim_t threads = threads_at_the_start();
  for (const Limit& limit : kLimits) {
    rlimit set = {};
    const rlim_t needed = limit.base + threads * limit.each_thread;
    if (getrlimit(limit.resource, &set) != 0 || set.rlim_cur == RLIM_INFINITY ||
        set.rlim_cur >= needed) {
      continue;
    }
    throw Error(ErrorKind::device,
                fmt::format("memory is limited to {} MB (ulimit {}), and {} MB are needed with "
                            "OMP_NUM_THREADS={}, {} MB with 1; raise the limit or lower the "
                            "threads",
                            set.rlim_cur / kMegabyte, limit.option, needed / kMegabyte, threads,
                            (limit.base + limit.each_thread) / kMegabyte));
  }
}

std::string folder_of_launcher() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string file(path, length > 0 ? static_cast<size_t>(length) : 0);
  return file.substr(0, file.rfind('/') + 1);
}

// To sleep at once would cost a program that is alone up to a sixth of its speed, since waking up
// takes long beside the pause between two operators of a network. So threads spin for about a fifth
// of a millisecond, which most of these pauses are shorter than. OpenMP libraries other than GCC's
// know the policy alone.
void choose_how_to_wait() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("GOMP_SPINCOUNT", "5000", 1);
}

// What this launcher was called as and with; kept for hand_over.
std::string program_name;
char** program_arguments = nullptr;

// A file of options may name any command, what several processes do is for MPI to know, and the
// version is LibTorch's too.
bool is_for_libtorch(const Program& program, const std::vector<std::string>& arguments) {
  if (started_together()) return true;
  const size_t at = place_of_command(arguments);
  for (size_t i = 0; i < at; ++i) {
    if (arguments[i] == "--help" || arguments[i] == "-h") return false;
    if (arguments[i].rfind("--config", 0) == 0 || arguments[i] == "--version") return true;
  }
  const CommandRow* row =
      at == arguments.size() ? nullptr : find_command(program.commands, arguments[at]);
  return row != nullptr && row->needs_libtorch;
}

}  // namespace

void hand_over() {
  require_memory_to_begin();
  choose_how_to_wait();
  const std::string folder = folder_of_launcher();
  // Installed, and in a build folder.
  for (const char* way : {"../" BESPOKE_LIBEXEC, BESPOKE_LIBEXEC}) {
    execv((folder + way + "/bespoke/" + program_name).c_str(), program_arguments);
  }
  throw Error(ErrorKind::failed,
              fmt::format("cannot run {}../" BESPOKE_LIBEXEC "/bespoke/{} ({}); install it again",
                          folder, program_name, std::strerror(errno)));
}

int launch(const Program& program, char** argv) {
  program_name = program.name;
  program_arguments = argv;
  const auto work = [&] {
    std::vector<std::string> arguments;
    for (char** next = argv + 1; *next != nullptr; ++next) arguments.emplace_back(*next);
    if (is_for_libtorch(program, arguments)) hand_over();
    guard_standard_streams();
    catch_interrupts();
    run_command_line(program, arguments);
  };
  return run_reporting_errors(program.name, work, [](const std::string& message) {
    write_to_stderr(one_line(message) + "\n");
  });
}

}  // namespace bespoke
