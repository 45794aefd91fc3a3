#pragma once

#include "bespoke/path/coordinates.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// Takes a solver of the model's own path to canonical coordinates, and back: the same
// evaluations at the same log-SNR, the same states but for their scale, exactly.
NsSolver to_canonical(const NsSolver& solver, const Coordinates& coordinates);
NsSolver to_own(const NsSolver& solver, const Coordinates& coordinates);

}  // namespace bespoke
