#include <cstdlib>

#include "../base/started_together.h"
#include "bespoke/base/error.h"
#include "bespoke/recipe/mpi_team.h"

namespace bespoke {

using namespace detail;

std::unique_ptr<Team> join_mpi_team() {
  if (!started_together()) return nullptr;
  throw bad_input(
      "several processes were started together, which needs MPI, and this build has none; install "
      "it (Debian: libopenmpi-dev), build again, or start one process");
}

LocalPlace local_place(const Team&) { return {}; }

void abort_mpi_team(int exit_code) { std::exit(exit_code); }

}  // namespace bespoke
