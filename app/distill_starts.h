#pragma once

#include <string>
#include <vector>

#include "bespoke/io/solver_file.h"
#include "distill_options.h"

namespace bespoke {

// A solver to start from, with what to call it.
struct NamedStart {
  std::string name;
  NsSolver solver;
};

// The solvers that --init and --sigma0 name, for `nfe` evaluations of the field. `neighbour` is the
// result for fewer evaluations, or null: padded it is as good, and automatic starts include it.
std::vector<NamedStart> make_starts(const DistillCommandOptions& options, int nfe,
                                    const FieldDescription& field, const NsSolver* neighbour);

}  // namespace bespoke
