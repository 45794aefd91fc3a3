#pragma once

#include <memory>

#include "bespoke/model/model.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A solver and the field it runs on.
struct SolverOnField {
  NsSolver solver;                     // its coefficients are for this field
  std::shared_ptr<const Field> field;  // what it evaluates
};

// The solver written on what the model itself returns (lowering.h): the same samples to rounding,
// without a conversion to velocities at each step. What the field returns is then the model's
// prediction, and the solver is for it alone. A model that predicts velocities, and a solver with
// built-in guidance, are run as they are.
SolverOnField on_outputs(const NsSolver& solver, const ModelPtr& model);

}  // namespace bespoke
