#include "bespoke/solver/translation.h"

namespace bespoke {

namespace {

// The solver with its evaluations at times at which the model is asked.
NsSolver inside(NsSolver solver, const Schedule& path) {
  for (size_t i = 0; i < solver.a.size(); ++i) {
    solver.times[i] = last_inside(path, solver.times[i]);
  }
  return solver;
}

}  // namespace

NsSolver to_canonical(const NsSolver& solver, const Coordinates& coordinates) {
  return fold(inside(solver, *coordinates.own), *coordinates.to_own);
}

NsSolver to_own(const NsSolver& solver, const Coordinates& coordinates) {
  return fold(inside(solver, *coordinates.canonical), *coordinates.to_canonical);
}

}  // namespace bespoke
