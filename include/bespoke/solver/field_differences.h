#pragma once

#include <string>
#include <vector>

#include "bespoke/solver/solver_file.h"

namespace bespoke {

// How what the solvers of a file were made for differs from what they are to run on, each as a
// clause that completes "the file ...". This is the one rule for all that run a solver from a file.
struct FieldDifferences {
  // It would not draw the samples of this field at all: another path, or a weight of guidance that
  // is in the solver's own numbers.
  std::vector<std::string> impossible;
  // It draws them, and not as well as one that was made for this field. A solver of the catalogue
  // follows from the path alone, so nothing else can differ.
  std::vector<std::string> doubtful;
};

FieldDifferences field_differences(const SolverFile& file, const FieldDescription& field);

}  // namespace bespoke
