#pragma once

#include <string>
#include <vector>

#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// How users name a solver, everywhere: NAME[+lower-order-final][/GRID][@SCHEDULE], or the file of a
// finished one.
//   NAME      an entry of the catalogue, tableau:FILE.json or multistep:FILE.json
//   +lower-order-final   lets the order of a multistep exponential method fall to one at the end
//   GRID      where steps begin and end, as make_grid reads it; if left out, the entry's own
//   SCHEDULE  in whose coordinates the method runs, as make_schedule reads it, or sigma0=S for the
//             model's own with its sigma multiplied by S
// Examples: dpm++2m, unipc3-bh2/lambda-range:from=-4,to=4, midpoint/quadratic@fm-ot,
// euler@sigma0=2, unipc2-bh2+lower-order-final/karras.
struct SolverName {
  std::string file;    // of a finished solver; all others are empty then
  std::string method;  // NAME
  std::string grid, schedule;
  bool lower_order_final = false;

  static SolverName parse(const std::string& text);
  bool is_file() const { return !file.empty(); }
};
std::string to_string(const SolverName& name);

// A comma-separated list of names. Commas inside the options of a grid or schedule stay there.
std::vector<std::string> split_solver_names(const std::string& list);

// The row of the catalogue that a name stands for, which for tableau: and multistep: is made of the
// user's file.
CatalogueEntry entry_of(const SolverName& name);

// A file of finished solvers, which must be for the schedule of this field, and for its guidance
// where one guides itself.
SolverFile read_finished(const std::string& path, const FieldDescription& field);

// A file of one solver, that of `nfe` evaluations for this field. Finished ones are chosen by
// `nfe`, where it is not 0, as SolverFile::at chooses them.
SolverFile resolve_solver(const SolverName& name, int nfe, const FieldDescription& field);

// A solver with what to call it.
struct NamedSolver {
  std::string name;
  NsSolver solver;
};

}  // namespace bespoke
