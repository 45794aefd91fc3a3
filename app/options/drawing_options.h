#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "options/solver_options.h"

namespace bespoke {

// The options that say which solver draws samples, where the exact one is a choice as well.
struct DrawingOptions {
  std::string name = "midpoint";
  int nfe = 0;  // 0: the solver's own, or 8
  double tolerance = 1e-5;

  void add_to(CLI::App& command);

  // By the reference, the adaptive solver.
  bool exactly() const;

  NsSolver chosen(const FieldDescription& field) const { return resolve(name, nfe, field).at(); }
};

}  // namespace bespoke
