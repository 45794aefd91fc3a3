// `bespoke` itself: looks whether there is memory enough to begin with, says how OpenMP's threads
// are to wait, then becomes the program.
//
// OpenBLAS asks for its memory when it is loaded, before main, and where a limit of the shell
// refuses it asks again for ever. So the program cannot say it itself either.
//
// A thread of GCC's OpenMP library that has nothing to do spins for many milliseconds before it
// sleeps. Two programs on the same cores keep each other from them so: together they take many
// times as long as one after the other. The library reads how to wait when it is loaded, before
// main, so the program cannot say it itself.

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kMemoryCode = 4;
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

// Says what is needed where a limit is too low.
bool has_memory_to_begin() {
  const rlim_t threads = threads_at_the_start();
  for (const Limit& limit : kLimits) {
    rlimit found = {};
    const rlim_t needed = limit.base + threads * limit.each_thread;
    if (getrlimit(limit.resource, &found) != 0 || found.rlim_cur == RLIM_INFINITY ||
        found.rlim_cur >= needed) {
      continue;
    }
    const auto megabytes = [](rlim_t bytes) {
      return static_cast<unsigned long long>(bytes / kMegabyte);
    };
    std::fprintf(stderr,
                 "bespoke: memory is limited to %llu MB (ulimit %s), and %llu MB are needed with "
                 "OMP_NUM_THREADS=%llu, %llu MB with 1; raise the limit or lower the threads\n",
                 megabytes(found.rlim_cur), limit.option, megabytes(needed),
                 static_cast<unsigned long long>(threads),
                 megabytes(limit.base + limit.each_thread));
    return false;
  }
  return true;
}

std::string own_folder() {
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

}  // namespace

int main(int, char** argv) {
  if (!has_memory_to_begin()) return kMemoryCode;
  choose_how_to_wait();
  const std::string folder = own_folder();
  // Installed, and in a build folder.
  for (const char* way : {"../" BESPOKE_LIBEXEC, BESPOKE_LIBEXEC}) {
    execv((folder + way + "/bespoke/bespoke").c_str(), argv);
  }
  std::fprintf(stderr, "bespoke: cannot run %s../" BESPOKE_LIBEXEC "/bespoke/bespoke (%s)\n",
               folder.c_str(), std::strerror(errno));
  return 1;
}
