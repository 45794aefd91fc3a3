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

bool is_solver_file(const std::string& text);

// Whether a solver that is not a file can spend exactly nfe evaluations.
bool can_spend(const std::string& text, int nfe);

// Whether a solver that is not a file has an order that --lower-order-final can lower.
bool can_lower_order(const std::string& text);

}  // namespace bespoke
