#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/io/solver_file.h"
#include "bespoke/solver/catalogue.h"

namespace bespoke {

// The flags that turn a solver's name into coefficients.
struct SolverOptions {
  std::string grid;  // empty: the solver's own
  std::string via;   // run in this schedule's coordinates
  double sigma_0 = 1;
  bool lower_order_final = false;

  void add_to(CLI::App& command);
};

// A solver by what users type: a catalogue name, tableau:FILE, multistep:FILE, or a *.solver.json,
// which must be for the same schedule and, where nfe is not 0, have that many evaluations.
SolverFile resolve_solver(const std::string& text, int nfe, const FieldDescription& field,
                          const SolverOptions& options);

// Whether the solver can spend exactly nfe evaluations; files have the one they have.
bool can_spend(const std::string& text, int nfe);

}  // namespace bespoke
