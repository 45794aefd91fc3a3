#pragma once

#include <memory>

#include "bespoke/base/team.h"

namespace bespoke {

// The processes that mpirun, srun or the like started together with this one; null where it was
// started alone. Bad input where it was not and the library was built without MPI. Call it once,
// before threads are started; MPI ends with the team.
std::unique_ptr<Team> join_mpi_team();

// Of the members on this machine, the number of this one and how many there are: each can take a
// GPU and a part of the cores of its own.
struct LocalPlace {
  int rank = 0, size = 1;
};
LocalPlace local_place(const Team& team);

// Ends all processes of the team at once, with this exit code.
[[noreturn]] void abort_mpi_team(int exit_code);

}  // namespace bespoke
