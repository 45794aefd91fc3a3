#include "bespoke/sample/sampler.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/sample/pending_states.h"
#include "bespoke/tensor/combine.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

namespace {

int64_t first_bad_sample(const torch::Tensor& x) {
  const auto bad = torch::isfinite(x).reshape({x.size(0), -1}).all(1).logical_not();
  return bad.nonzero().min().item<int64_t>();
}

}  // namespace

namespace detail {

torch::Tensor start_state(const NsSolver& solver, const torch::Tensor& noise) {
  const bool wide = noise.scalar_type() == torch::kDouble;
  const torch::Tensor plain = noise.to(wide ? torch::kDouble : torch::kFloat).contiguous();
  return solver.start_scale == 1 ? plain : solver.start_scale * plain;
}

torch::Tensor kept_velocity(const torch::Tensor& u, const torch::Tensor& x) {
  if (u.sizes() != x.sizes() || u.device() != x.device() || !u.is_floating_point()) {
    throw bad_input("the field returned a tensor of shape {} for a state of shape {}",
                    fmt::join(u.sizes(), "x"), fmt::join(x.sizes(), "x"));
  }
  const torch::Tensor values = u.detach();
  return values.is_alias_of(x) ? values.clone() : values.contiguous();
}

void report_not_finite(const NsSolver& solver, size_t step, const torch::Tensor& u,
                       const torch::Tensor& x, int64_t first_sample) {
  const bool model = !torch::isfinite(u).all().item<bool>();
  const bool narrow = u.element_size() < 4;
  const char* advice = !model   ? "check that the solver was made for this model"
                       : narrow ? "run the model in a wider precision"
                                : "check the model at this time";
  throw Error(ErrorKind::diverged,
              fmt::format("{} at step {} of {} (t = {}, sample {}); {}",
                          model ? "the model returned NaN or infinity" : "the state overflowed",
                          step + 1, solver.nfe(), solver.times[step],
                          first_sample + first_bad_sample(model ? u : x), advice));
}

bool combine_step(const NsSolver& solver, size_t step, const torch::Tensor& start,
                  const std::vector<torch::Tensor>& velocities,
                  const std::vector<torch::Tensor>& differences, torch::Tensor& next) {
  std::vector<torch::Tensor> terms = {start};
  terms.insert(terms.end(), velocities.begin(), velocities.end());
  terms.insert(terms.end(), differences.begin(), differences.end());
  return combine(next, terms, step_coefficients(solver, step));
}

}  // namespace detail

GuidanceParts evaluate(const SolverShape& shape, size_t step, const Field& field,
                       const torch::Tensor& x, const torch::Tensor& t,
                       const Conditions& conditions) {
  if (!shape.guides_itself()) return {field.velocity(x, t, conditions), {}};
  return field.velocity_parts(x, t, conditions, shape.is_guided(step));
}

torch::Tensor sample(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                     const Conditions& conditions, const StepCallback& on_step,
                     int64_t first_sample) {
  const torch::NoGradGuard no_grad;
  if (!x0.device().is_cpu()) {
    return sample_pending(solver, field, x0, conditions, on_step, first_sample);
  }
  const torch::Tensor start = start_state(solver, x0);
  const torch::Tensor times = torch::tensor(solver.times, torch::kDouble);
  torch::Tensor x = torch::empty_like(start);
  const SolverShape shape = solver.shape();
  std::vector<torch::Tensor> velocities, differences;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    const auto step = static_cast<int64_t>(i);
    const torch::Tensor t = times.slice(0, step, step + 1).expand({start.size(0)});
    const torch::Tensor& here = i == 0 ? start : x;
    const GuidanceParts parts = evaluate(shape, i, field, here, t, conditions);
    velocities.push_back(kept_velocity(parts.conditional, here));
    torch::Tensor difference;
    if (parts.difference.defined()) {
      difference = kept_velocity(parts.difference, here);
      differences.push_back(difference);
    }
    if (!combine_step(solver, i, start, velocities, differences, x)) {
      report_not_finite(solver, i, velocities.back(), x, first_sample);
    }
    if (on_step) {
      on_step({static_cast<int>(i), solver.times[i], solver.times[i + 1], x, velocities.back(),
               difference});
    }
  }
  return x;
}

}  // namespace bespoke
