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

// What automatic starts are made for.
struct StartRequest {
  int nfe;
  FieldDescription field;
  double data_deviation = 0.5;  // of the model's samples, about 0
  // The result for fewer evaluations, or null: padded it is as good, and automatic starts include
  // it.
  const NsSolver* neighbour = nullptr;
};

// The solvers that --init and --sigma0 name. Automatic ones are the catalogue's nearest on each of
// several grids, which `choose` finds.
std::vector<NamedStart> make_starts(const DistillCommandOptions& options,
                                    const StartRequest& request, const ChooseStart& choose);

}  // namespace bespoke
