#pragma once

#include <memory>

#include "bespoke/base/team.h"

namespace bespoke {

// Joins the processes that mpirun, srun or the like started together with this one; null where it
// was started alone. Several processes and a library built without MPI are bad input. Call it once,
// before threads are started; MPI ends with the team.
std::unique_ptr<Team> join_mpi_team();

// The place of a process among the members on its machine: each can take a GPU and a part of the
// cores of its own.
struct LocalPlace {
  int rank = 0;  // the number of this member, from 0
  int size = 1;  // how many are on this machine
};
// The place of this process on its machine.
LocalPlace local_place(const Team& team);

// Ends all processes of the team at once, with this exit code.
[[noreturn]] void abort_mpi_team(int exit_code);

}  // namespace bespoke
