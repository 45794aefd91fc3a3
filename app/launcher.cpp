// `bespoke` itself: says how OpenMP's threads are to wait, then becomes the program.
//
// A thread of GCC's OpenMP library that has nothing to do spins for many milliseconds before it
// sleeps. Two programs on the same cores keep each other from them so: together they take many
// times as long as one after the other. The library reads how to wait when it is loaded, before
// main, so the program cannot say it itself.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

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
