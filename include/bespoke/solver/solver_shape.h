#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace bespoke {

// What the steps of a solver are made of, without their numbers.
//
// An ordinary solver runs on one velocity per evaluation; guidance, where there is any, is part of
// that velocity. One with built-in guidance has u_j = u(t_j, x_j | y) at every step and, at some
// steps, also how it differs from the unconditional velocity, d_j = u(t_j, x_j | y) - u(t_j, x_j).
// Those steps call the network twice, the others once.
struct SolverShape {
  int nfe = 0;
  std::vector<int> guided = {};  // the steps that have d_j, rising; none: an ordinary solver

  SolverShape(int nfe) : nfe(nfe) {}  // an ordinary one: the usual case
  SolverShape(int nfe, std::vector<int> guided) : nfe(nfe), guided(std::move(guided)) {}

  bool guides_itself() const { return !guided.empty(); }
  bool is_guided(size_t step) const;

  // How many d_j are known when step `step` is taken.
  size_t differences(size_t step) const;
  // How many arrays the step combines: x_0, u_0 ... u_step and those d_j, in this order.
  size_t columns(size_t step) const { return step + 2 + differences(step); }

  // Network calls per sample: one for each step, and one more where it is guided. `calls_from`
  // counts the steps from `step` on.
  int calls() const { return calls_from(0); }
  int calls_from(int step) const;
};

// The shape of nfe steps of which the first `guided` have d_j.
SolverShape guided_first(int nfe, int guided);

bool operator==(const SolverShape& left, const SolverShape& right);

}  // namespace bespoke
