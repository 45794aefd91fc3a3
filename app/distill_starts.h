#pragma once

#include <functional>
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

// Which of several solvers comes nearest to the pairs before any training.
using ChooseStart = std::function<size_t(const std::vector<NamedStart>&)>;

// The solvers that --init and --sigma0 name, for `nfe` evaluations of the field. `neighbour` is the
// result for fewer evaluations, or null: padded it is as good, and automatic starts include it.
// Automatic ones are the catalogue's nearest on each of several grids, which `choose` finds.
std::vector<NamedStart> make_starts(const DistillCommandOptions& options, int nfe,
                                    const FieldDescription& field, const NsSolver* neighbour,
                                    const ChooseStart& choose);

}  // namespace bespoke
