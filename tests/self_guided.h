#pragma once

#include "bespoke/solver/ns_solver.h"

namespace bespoke::testing {

// What an ordinary solver does on a field guided with weight w, written as one with built-in
// guidance.
inline NsSolver self_guided(NsSolver solver, double w) {
  solver.guided = guided_first(solver.nfe(), solver.nfe()).guided;
  solver.c = solver.b;
  for (auto& row : solver.c) {
    for (double& c : row) c *= w;
  }
  return solver;
}

// The same without the differences of its last steps.
inline NsSolver guided_in_the_first(NsSolver solver, int steps, double w) {
  solver = self_guided(std::move(solver), w);
  solver.guided.resize(static_cast<size_t>(steps));
  for (size_t i = 0; i < solver.c.size(); ++i) solver.c[i].resize(solver.shape().differences(i));
  return solver;
}

}  // namespace bespoke::testing
