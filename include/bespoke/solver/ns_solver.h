#pragma once

#include <string>
#include <vector>

#include "bespoke/path/scale_time.h"
#include "bespoke/solver/solver_shape.h"

namespace bespoke {

// The most evaluations a solver may have: far beyond use, low enough to catch nonsense.
constexpr int kMostEvaluations = 10000;

// A Non-Stationary solver: the one type of all fixed-step solvers. With u_j = u(t_j, x_j),
//   x_{i+1} = a_i x_0 + sum_{j <= i} b_ij u_j,   i = 0 ... n-1.
// The field is evaluated at t_0 ... t_{n-1} and never at t_n. Times may repeat (RK4, Heun) but not
// fall. x_0 is the state at t_0: a solver that does not start at 0 (Karras's grid, lambda-range,
// distilled ones) scales the noise to it first.
//
// A solver with built-in guidance (solver_shape.h) runs on u_j = u(t_j, x_j | y) and the
// differences d_j = u(t_j, x_j | y) - u(t_j, x_j) of its guided steps:
//   x_{i+1} = a_i x_0 + sum_{j <= i} b_ij u_j + sum_{j <= i, j guided} c_ij d_j.
// An ordinary solver on a field guided with weight w is the same with every step guided and
// c = w b; its own numbers are better, and late steps can do without d_j.
struct NsSolver {
  std::vector<double> times;           // n + 1, weakly increasing in [0, 1]
  std::vector<double> a;               // n
  std::vector<std::vector<double>> b;  // n rows, row i has i + 1 entries
  double start_scale = 1;              // x_0 is this times the noise a sampler draws

  // Of a solver with built-in guidance; empty otherwise.
  std::vector<int> guided = {};             // its guided steps, rising
  std::vector<std::vector<double>> c = {};  // n rows, row i has an entry for each of them up to i

  // The number of evaluations, which is that of steps.
  int nfe() const { return static_cast<int>(a.size()); }
  // How many steps there are, and which are guided.
  SolverShape shape() const { return {nfe(), guided}; }
  // Whether the solver has built-in guidance.
  bool guides_itself() const { return !guided.empty(); }

  // How many numbers tell the solver from others: t_0 ... t_{n-1}, a, b, c and the scale (t_n has
  // no effect).
  int parameter_count() const;

  // Checks lengths, finite values and increasing times. Throws a bad-input error that names the
  // entry.
  void validate() const;
};

// Whether all numbers are the same.
bool operator==(const NsSolver& left, const NsSolver& right);

// The coefficients of step i, of x_0, u_0 ... u_i and the d_j so far: a_i, b_i0 ... b_ii, c_i0 ...
std::vector<double> step_coefficients(const NsSolver& solver, size_t step);

// Throws a bad-input error that names `what` where the solver has built-in guidance: for all that
// can only run a solver on one velocity per evaluation.
void require_one_velocity(const NsSolver& solver, const std::string& what);

// Whether both evaluate the model at the same points: they may differ in the last step.
bool same_evaluations(const NsSolver& left, const NsSolver& right);

// One update in the over-complete form x_{i+1} = sum_j c_j x_j + d_j u_j, j = 0 ... i; of a solver
// with built-in guidance with e_m times the m-th of its differences too.
struct UpdateRule {
  std::vector<double> c;       // of the states so far
  std::vector<double> d;       // of the velocities so far
  std::vector<double> e = {};  // of the differences so far
};

// The reduction (c, d, e) -> (a, b, c): every x_j is itself a combination of x_0 and earlier u's.
NsSolver from_update_rules(const std::vector<double>& times, const std::vector<UpdateRule>& rules,
                           const std::vector<int>& guided = {});

// `solver` runs in r on the field transformed by `transform`; the result runs in t on the field
// itself and computes the same x. This is how scale-time solvers become NS solvers.
NsSolver fold(const NsSolver& solver, const ScaleTime& transform);

// A solver of `nfe` >= solver.nfe() evaluations that computes the same x_n: evaluations that count
// for nothing are put halfway into the longest steps. A start for something better.
NsSolver pad(const NsSolver& solver, int nfe);

}  // namespace bespoke
