#pragma once

#include <cstddef>
#include <cstdint>

#include "bespoke/sample/sampler.h"

namespace bespoke {

// The states of a run on a device, all at once: as each velocity comes, one kernel adds its share
// to every state it is still part of. Nothing is read back until the end.
class PendingStates {
 public:
  // With the solver's pending_coefficients, in the type of the start and where it is.
  PendingStates(const NsSolver& solver, const torch::Tensor& coefficients,
                const torch::Tensor& start);

  // Takes the velocity of a step, and the difference of a guided one: x_{step+1} is then complete.
  void add(size_t step, const torch::Tensor& velocity, const torch::Tensor& difference);
  torch::Tensor state(size_t step) const;  // x_{step+1}

  // The first step whose state is not finite, or their number. Waits for the device.
  size_t first_not_finite() const;

 private:
  void add_column(size_t step, size_t column, const torch::Tensor& values);

  SolverShape shape_;
  torch::Tensor states_, coefficients_;  // [n, batch, ...], [n, columns]
};

// A row of coefficients for each step: of x_0, of all velocities, of all differences.
torch::Tensor pending_coefficients(const NsSolver& solver, torch::Device device,
                                   torch::ScalarType type);

// All steps from x_0, with nothing read back.
PendingStates run_pending(const NsSolver& solver, const torch::Tensor& coefficients,
                          const Field& field, const torch::Tensor& start,
                          const Conditions& conditions, const StepCallback& on_step);

// sample() as devices run it, wherever x0 is.
torch::Tensor sample_pending(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                             const Conditions& conditions, const StepCallback& on_step,
                             int64_t first_sample);

}  // namespace bespoke
