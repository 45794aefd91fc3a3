#pragma once

#include <optional>
#include <string>

#include "bespoke/path/prediction.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// How to write a solver as a C header.
struct CHeaderOptions {
  // What the network outputs; empty: what the file says.
  std::optional<Prediction> prediction = {};
  // What every name in the header begins with; empty: made from the solver's.
  std::string name = {};
};

// Writes the only solver of a file as a header that compiles as C11 and C++17 and needs no other
// file: the solver on the network's raw outputs (lower, for float32) in plain arrays, what the
// network is given at each step where the file knows it, and a function that draws samples, in
// float and double. A name that is no identifier of C is a usage error.
std::string c_header(const SolverFile& file, const CHeaderOptions& options = {});

}  // namespace bespoke
