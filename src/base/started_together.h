#pragma once

#include <cstdlib>
#include <string>

namespace bespoke::detail {

// Whether mpirun (Open MPI, MPICH and its kin) or srun started more than one process here. MPI is
// left alone otherwise: it takes a while to begin, and not every machine lets it.
inline bool started_together() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const char* size = std::getenv(name);
    if (size != nullptr) return std::atoi(size) > 1;
  }
  // srun sets no size of its own for the step of a job that was allocated by sbatch alone.
  const char* step = std::getenv("SLURM_STEP_NUM_TASKS");
  return step != nullptr && std::getenv("PMIX_RANK") != nullptr && std::atoi(step) > 1;
}

}  // namespace bespoke::detail
