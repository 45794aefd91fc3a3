#pragma once

#include <optional>
#include <string>

#include "bespoke/path/prediction.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

struct CHeaderOptions {
  // What the network outputs; what the file says where it is not given.
  std::optional<Prediction> prediction = {};
  // Begins every name in the header; made of the solver's where it is empty.
  std::string name = {};
};

// The only solver of a file as a header that compiles as C11 and C++17 and needs no other file: the
// solver on the network's raw outputs (lower, for float32) in plain arrays, what the network is
// given at each step where the file knows it, and a function that draws samples, in float and
// double. A name that is no identifier of C is a usage error.
std::string c_header(const SolverFile& file, const CHeaderOptions& options = {});

}  // namespace bespoke
