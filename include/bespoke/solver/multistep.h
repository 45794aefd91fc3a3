#pragma once

#include <vector>

#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A stationary m-step rule, oldest first:
//   x_{i+1} = sum_j a_j x_{i-m+1+j} + h sum_j b_j u_{i-m+1+j},   j = 0 ... m-1.
struct MultistepRule {
  std::vector<double> a, b;
  void validate() const;  // consistent: sum a = 1 and sum b - sum_j (j - (m-1)) a_j = 1
};

// Makes Adams-Bashforth solvers of the given order with weights for the actual, unequal steps. The
// first steps use the order their history allows.
NsSolver adams_bashforth(int order, const std::vector<double>& grid);

// Makes the solver of any stationary rule, with Adams-Bashforth steps until its history is full.
NsSolver multistep(const MultistepRule& rule, const std::vector<double>& grid);

}  // namespace bespoke
