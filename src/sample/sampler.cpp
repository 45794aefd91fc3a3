#include "bespoke/sample/sampler.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <numeric>

#include "bespoke/base/error.h"
#include "bespoke/model/guidance.h"
#include "bespoke/run/solver_run.h"
#include "bespoke/sample/tensor_field.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

namespace detail {

torch::Tensor noise_state(const torch::Tensor& noise) {
  const bool wide = noise.scalar_type() == torch::kDouble;
  return noise.to(wide ? torch::kDouble : torch::kFloat).contiguous();
}

torch::Tensor kept_velocity(const torch::Tensor& u, const torch::Tensor& x) {
  if (u.sizes() != x.sizes() || u.device() != x.device() || !u.is_floating_point()) {
    throw bad_input("the field returned a tensor of shape {} for a state of shape {}",
                    fmt::join(u.sizes(), "x"), fmt::join(x.sizes(), "x"));
  }
  const torch::Tensor values = u.detach();
  return values.is_alias_of(x) ? values.clone() : values.contiguous();
}

SolverStepCallback each_step(const NsSolver& solver, const StepCallback& on_step) {
  if (!on_step) return nullptr;
  return [&solver, on_step](const SolverStep& step) {
    const Array& difference = step.velocities.difference;
    on_step({static_cast<int>(step.step), solver.times[step.step], solver.times[step.step + 1],
             tensor_of(step.x), tensor_of(step.velocities.velocity),
             difference ? tensor_of(difference) : torch::Tensor()});
  };
}

}  // namespace detail

torch::Tensor sample(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                     const Conditions& conditions, const StepCallback& on_step,
                     int64_t first_sample) {
  const torch::NoGradGuard no_grad;
  const std::shared_ptr<const Field> borrowed(&field, [](const Field*) {});
  std::vector<int64_t> rows(static_cast<size_t>(x0.size(0)));
  std::iota(rows.begin(), rows.end(), 0);
  Counts unused;
  const SolverRun run =
      run_solver(*tensor_field(borrowed, conditions), solver, array_of(noise_state(x0)),
                 std::move(rows), Keep::end, first_sample, &unused, each_step(solver, on_step));
  // Not a part of all the states that a device made together.
  return x0.device().is_cpu() ? tensor_of(run.end()) : tensor_of(run.end()).clone();
}

}  // namespace bespoke
