#pragma once

#include <string>
#include <vector>

#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// An explicit Runge-Kutta method. It checks itself when built: shapes, rows of a summing to c,
// weights summing to one, nodes in [0, 1] that do not fall (an NS solver walks forward).
struct ButcherTableau {
  std::vector<std::vector<double>> a;  // row j has j entries; row 0 is empty
  std::vector<double> b;
  std::vector<double> c;

  int stages() const { return static_cast<int>(b.size()); }
  void validate() const;
};

ButcherTableau euler_tableau();
ButcherTableau midpoint_tableau();
ButcherTableau heun_tableau();
ButcherTableau ralston_tableau();
ButcherTableau rk3_tableau();  // Kutta's third-order method
ButcherTableau rk4_tableau();

// Makes the solver that takes one step of the tableau per grid interval, on the field as it is.
// Where the field is infinite at the end of the grid (VP at t = 1) a tableau with a node there
// takes the last step in equal Euler substeps, one per stage, as EDM's sampler does.
NsSolver runge_kutta(const ButcherTableau& tableau, const std::vector<double>& grid,
                     bool infinite_at_end = false);

}  // namespace bespoke
