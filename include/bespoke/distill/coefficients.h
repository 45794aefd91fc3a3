#pragma once

#include <cstddef>
#include <vector>

#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// The numbers of an NS solver in one fixed order, in which every gradient is reported:
//   t_0 ... t_n,  a_0 ... a_{n-1},  b_00,  b_10, b_11,  b_20 ...,  start_scale,  c row by row
// (2n + 2) + n (n + 1) / 2 in all, and those of c with built-in guidance.
size_t coefficient_count(const SolverShape& shape);
std::vector<double> coefficients_of(const NsSolver& solver);
NsSolver solver_of(const SolverShape& shape, const std::vector<double>& coefficients);

// Where some of them lie; t_i lies at i. The columns of a step are those of SolverShape::columns.
size_t start_scale_index(const SolverShape& shape);
size_t step_coefficient_index(const SolverShape& shape, size_t step, size_t column);

}  // namespace bespoke
