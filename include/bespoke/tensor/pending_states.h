#pragma once

#include <torch/types.h>

#include <cstddef>

#include "bespoke/run/arrays.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// The states of a run on a device, all at once: as each velocity comes, one kernel adds its share
// to every state it is still part of. Nothing is read back until the end.
class PendingStates : public GrowingStates {
 public:
  // The states of a run from `start`, with the solver's pending_coefficients in its type and on its
  // device.
  PendingStates(const NsSolver& solver, const torch::Tensor& coefficients,
                const torch::Tensor& start);

  bool add(size_t step, const Array& velocity, const Array& difference) override;
  Array state(size_t step) const override;
  size_t first_not_finite() const override;

 private:
  void add_column(size_t step, size_t column, const torch::Tensor& values);

  SolverShape shape_;
  torch::Tensor states_, coefficients_;  // [n, batch, ...], [n, columns]
};

// A row of coefficients for each step: of x_0, of all velocities, of all differences.
torch::Tensor pending_coefficients(const NsSolver& solver, torch::Device device,
                                   torch::ScalarType type);

}  // namespace bespoke
