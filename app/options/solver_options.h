#pragma once

#include <string>

#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The solver of a name, NAME[/GRID][@SCHEDULE] or a file. Warns on stderr where a file was made for
// another field; an nfe of 0 is the only one of a file, and 8 for all others.
SolverFile resolve(const std::string& text, int nfe, const FieldDescription& field);

// All solvers of a file that can run on this field; warns on stderr where they were made for
// another.
SolverFile finished(const std::string& path, const FieldDescription& field);

// What every command that takes names of solvers says of them.
extern const char kSolverNames[];

}  // namespace bespoke
