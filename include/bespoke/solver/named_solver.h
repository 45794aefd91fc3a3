#pragma once

#include <string>
#include <vector>

#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// How users name a solver, everywhere: NAME[+lower-order-final][/GRID][@SCHEDULE], or a solver
// file.
//   NAME      an entry of the catalogue, tableau:FILE.json or multistep:FILE.json
//   +lower-order-final   lets the order of a multistep exponential method fall to one at the end
//   GRID      where steps begin and end, as make_grid reads it; if left out, the entry's own
//   SCHEDULE  in whose coordinates the method runs, as make_schedule reads it, or sigma0=S for the
//             model's own with its sigma multiplied by S
// Examples: dpm++2m, unipc3-bh2/lambda-range:from=-4,to=4, midpoint/quadratic@fm-ot,
// euler@sigma0=2, unipc2-bh2+lower-order-final/karras.
struct SolverName {
  std::string file;                // a solver file; the other fields are empty then
  std::string method;              // NAME
  std::string grid;                // GRID; empty: the entry's own
  std::string schedule;            // SCHEDULE; empty: the model's own
  bool lower_order_final = false;  // whether the order falls to one at the end

  // Reads a name as users write it.
  static SolverName parse(const std::string& text);
  // Whether it names a solver file.
  bool is_file() const { return !file.empty(); }
};
// The name as users write it.
std::string to_string(const SolverName& name);

// Splits a comma-separated list of names. Commas inside the options of a grid or schedule stay
// there.
std::vector<std::string> split_solver_names(const std::string& list);

// The entry of the catalogue that a name stands for; for tableau: and multistep: it is made from
// the user's file.
CatalogueEntry entry_of(const SolverName& name);

// Reads a solver file, which must be for the schedule of this field and, where one of its solvers
// has built-in guidance, for the field's guidance.
SolverFile read_finished(const std::string& path, const FieldDescription& field);

// The solver of `nfe` evaluations that a name stands for on this field, as a file of that one
// alone. From a solver file it is chosen by `nfe`, where that is not 0, as SolverFile::at chooses
// it.
SolverFile resolve_solver(const SolverName& name, int nfe, const FieldDescription& field);

// A solver with what to call it.
struct NamedSolver {
  std::string name;  // as lists and messages show it
  NsSolver solver;   // its numbers
};

}  // namespace bespoke
