#pragma once

#include <string>

#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// Draws a solver for a terminal, in two lines and a triangle of characters.

// Draws where the field is evaluated, on an axis from the noise to the data; several evaluations
// that fall on one character are shown by their number.
std::string draw_times(const NsSolver& solver, int width = 60);

// Draws |b_ij| as a heat map: a row per step, a column per velocity; darker is larger, and a minus
// sign stands behind negative entries.
std::string draw_coefficients(const NsSolver& solver);

}  // namespace bespoke
