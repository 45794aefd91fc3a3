#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The options that say how a solver is built where its name does not.
struct SolverOptions {
  std::string grid, via;
  double sigma_0 = 1;
  bool lower_order_final = false;

  void add_to(CLI::App& command);
};

// NAME[/GRID][@SCHEDULE] or a file, completed by the options. A file is finished, and so refuses
// them.
SolverName completed(const std::string& text, const SolverOptions& options);

// The solver of a name so completed. Warns on stderr where a file was made for another field; an
// nfe of 0 is the only one of a file, and 8 for all others.
SolverFile resolve(const std::string& text, int nfe, const FieldDescription& field,
                   const SolverOptions& options);

// All solvers of a file that can run on this field; warns on stderr where they were made for
// another.
SolverFile finished(const std::string& path, const FieldDescription& field);

// What every command that takes names of solvers says of them.
extern const char kSolverNames[];

}  // namespace bespoke
