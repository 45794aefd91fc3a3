#include "bespoke/sample/pending_states.h"

#include <torch/torch.h>

#include <algorithm>

#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

PendingStates::PendingStates(const NsSolver& solver, const torch::Tensor& coefficients,
                             const torch::Tensor& start)
    : shape_(solver.shape()),
      states_(per_sample(coefficients.select(1, 0), start.dim() + 1) * start.unsqueeze(0)),
      coefficients_(coefficients) {}

void PendingStates::add(size_t step, const torch::Tensor& velocity,
                        const torch::Tensor& difference) {
  add_column(step, 1 + step, velocity);
  if (difference.defined()) {
    add_column(step, 1 + static_cast<size_t>(shape_.nfe) + shape_.differences(step) - 1,
               difference);
  }
}

void PendingStates::add_column(size_t step, size_t column, const torch::Tensor& values) {
  const torch::Tensor factors =
      coefficients_.select(1, static_cast<int64_t>(column)).slice(0, static_cast<int64_t>(step));
  states_.slice(0, static_cast<int64_t>(step))
      .addcmul_(per_sample(factors, states_.dim()), values.to(states_.scalar_type()).unsqueeze(0));
}

torch::Tensor PendingStates::state(size_t step) const {
  return states_.select(0, static_cast<int64_t>(step));
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
  return sent(table, device, type);
}

namespace {

GuidanceParts parts_of(const NsSolver& solver, size_t step, const Field& field,
                       const torch::Tensor& here, const Conditions& conditions) {
  const auto t = torch::full({1}, solver.times[step], torch::kDouble).expand({here.size(0)});
  return evaluate(solver.shape(), step, field, here, t, conditions);
}

}  // namespace

PendingStates run_pending(const NsSolver& solver, const torch::Tensor& coefficients,
                          const Field& field, const torch::Tensor& start,
                          const Conditions& conditions, const StepCallback& on_step) {
  PendingStates states(solver, coefficients, start);
  for (size_t i = 0; i < solver.a.size(); ++i) {
    const torch::Tensor here = i == 0 ? start : states.state(i - 1);
    const GuidanceParts parts = parts_of(solver, i, field, here, conditions);
    const torch::Tensor velocity = kept_velocity(parts.conditional, here);
    torch::Tensor difference;
    if (parts.difference.defined()) difference = kept_velocity(parts.difference, here);
    states.add(i, velocity, difference);
    if (on_step) {
      on_step({static_cast<int>(i), solver.times[i], solver.times[i + 1], states.state(i), velocity,
               difference});
    }
  }
  return states;
}

torch::Tensor sample_pending(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                             const Conditions& conditions, const StepCallback& on_step,
                             int64_t first_sample) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor start = start_state(solver, x0);
  const PendingStates states =
      run_pending(solver, pending_coefficients(solver, start.device(), start.scalar_type()), field,
                  start, conditions, on_step);
  const size_t bad = states.first_not_finite();
  if (bad == solver.a.size()) return states.state(bad - 1).clone();
  // Its velocity is gone; what the model answers there once more says whose fault it is.
  const torch::Tensor here = bad == 0 ? start : states.state(bad - 1);
  report_not_finite(solver, bad, parts_of(solver, bad, field, here, conditions).conditional,
                    states.state(bad), first_sample);
}

}  // namespace bespoke
