#pragma once

#include <cstdint>
#include <functional>

#include "bespoke/model/model.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// What a step of a solver did.
struct StepInfo {
  int step;                         // its number, 0 ... n - 1
  double time;                      // where the field was evaluated
  double next_time;                 // where the step ended
  const torch::Tensor& x;           // the state at next_time
  const torch::Tensor& velocity;    // u at `time`; with built-in guidance the conditional one
  const torch::Tensor& difference;  // d of a guided step, otherwise undefined
};
// Called after each step.
using StepCallback = std::function<void(const StepInfo&)>;

// Draws samples by Algorithm 1 of the paper, with any solver on any field: x_n from the noise x0
// [batch, ...], which is scaled as the solver says. The state is float32 or float64, as x0 is (half
// precision is raised to float32); on the CPU velocities stay in the model's own type. Memory is
// one state, n velocities and the differences on the CPU, and n states on other devices, where
// nothing is read back before the last step. Throws (diverged) with the step, time and sample named
// if the state stops being finite; `first_sample` is the number of x0[0] among all samples of a
// run.
torch::Tensor sample(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                     const Conditions& conditions = {}, const StepCallback& on_step = nullptr,
                     int64_t first_sample = 0);

}  // namespace bespoke
