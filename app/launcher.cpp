// `bespoke` itself: says how OpenMP's threads are to wait, then becomes the program.
//
// A thread of GCC's OpenMP library that has nothing to do spins for milliseconds before it sleeps.
// That gains nothing measurable here, and two programs on the same cores keep each other from them:
// together they take many times as long as one after the other. The library reads how to wait when
// it is loaded, before main, so the program cannot say it itself.

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

}  // namespace

int main(int, char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") == nullptr) setenv("OMP_WAIT_POLICY", "passive", 0);
  const std::string folder = own_folder();
  // Installed, and in a build folder.
  for (const char* way : {"../" BESPOKE_LIBEXEC, BESPOKE_LIBEXEC}) {
    execv((folder + way + "/bespoke/bespoke").c_str(), argv);
  }
  std::fprintf(stderr, "bespoke: cannot run %s../" BESPOKE_LIBEXEC "/bespoke/bespoke (%s)\n",
               folder.c_str(), std::strerror(errno));
  return 1;
}
