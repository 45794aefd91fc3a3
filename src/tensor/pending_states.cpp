#include "bespoke/tensor/pending_states.h"

#include <torch/torch.h>

#include <algorithm>

#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "bespoke/tensor/transfer.h"

namespace bespoke {

PendingStates::PendingStates(const NsSolver& solver, const torch::Tensor& coefficients,
                             const torch::Tensor& start)
    : shape_(solver.shape()),
      states_(per_sample(coefficients.select(1, 0), start.dim() + 1) * start.unsqueeze(0)),
      coefficients_(coefficients) {}

bool PendingStates::add(size_t step, const Array& velocity, const Array& difference) {
  add_column(step, 1 + step, tensor_of(velocity));
  if (difference) {
    add_column(step, 1 + static_cast<size_t>(shape_.nfe) + shape_.differences(step) - 1,
               tensor_of(difference));
  }
  return true;
}

void PendingStates::add_column(size_t step, size_t column, const torch::Tensor& values) {
  const torch::Tensor factors =
      coefficients_.select(1, static_cast<int64_t>(column)).slice(0, static_cast<int64_t>(step));
  states_.slice(0, static_cast<int64_t>(step))
      .addcmul_(per_sample(factors, states_.dim()), values.to(states_.scalar_type()).unsqueeze(0));
}

Array PendingStates::state(size_t step) const {
  return array_of(states_.select(0, static_cast<int64_t>(step)));
}

size_t PendingStates::first_not_finite() const {
  const torch::Tensor finite = torch::isfinite(states_).flatten(1).all(1).to(torch::kCPU);
  const auto* begin = finite.data_ptr<bool>();
  return static_cast<size_t>(std::find(begin, begin + finite.size(0), false) - begin);
}

torch::Tensor pending_coefficients(const NsSolver& solver, torch::Device device,
                                   torch::ScalarType type) {
  const SolverShape shape = solver.shape();
  const auto n = static_cast<int64_t>(solver.a.size());
  const auto columns = static_cast<int64_t>(1 + solver.a.size() + shape.guided.size());
  const torch::Tensor table = torch::zeros({n, columns}, torch::kDouble);
  auto values = table.accessor<double, 2>();
  for (int64_t i = 0; i < n; ++i) {
    const auto step = static_cast<size_t>(i);
    values[i][0] = solver.a[step];
    for (int64_t j = 0; j <= i; ++j) values[i][1 + j] = solver.b[step][static_cast<size_t>(j)];
    for (size_t k = 0; k < shape.differences(step); ++k) {
      values[i][1 + n + static_cast<int64_t>(k)] = solver.c[step][k];
    }
  }
  return copied_to(table, device, type);
}

}  // namespace bespoke
