#pragma once

#include <string>

#include "bespoke/jobs/execution.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// The solvers of a file, as they run on a field. Notes where they were made for another one.
SolverFile read_noted(const std::string& path, const FieldDescription& field,
                      const Execution& execution);

}  // namespace bespoke
