#include "bespoke/solver/sampler.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/core/combine.h"
#include "bespoke/core/error.h"

namespace bespoke {

namespace {

int64_t first_bad_sample(const torch::Tensor& x) {
  const auto bad = torch::isfinite(x).reshape({x.size(0), -1}).all(1).logical_not();
  return bad.nonzero().min().item<int64_t>();
}

[[noreturn]] void report_not_finite(const NsSolver& solver, size_t step, const torch::Tensor& u,
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

// The velocity as the sampler keeps it: of the state's shape, and a tensor of its own.
torch::Tensor kept(const torch::Tensor& u, const torch::Tensor& x) {
  if (u.sizes() != x.sizes() || u.device() != x.device() || !u.is_floating_point()) {
    throw bad_input("the field returned a tensor of shape {} for a state of shape {}",
                    fmt::join(u.sizes(), "x"), fmt::join(x.sizes(), "x"));
  }
  return u.is_alias_of(x) ? u.clone() : u.contiguous();
}

}  // namespace

torch::Tensor sample(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                     const Conditions& conditions, const StepCallback& on_step,
                     int64_t first_sample) {
  const torch::NoGradGuard no_grad;
  const bool wide = x0.scalar_type() == torch::kDouble;
  const torch::Tensor noise = x0.to(wide ? torch::kDouble : torch::kFloat).contiguous();
  const torch::Tensor start = solver.start_scale == 1 ? noise : solver.start_scale * noise;
  const torch::Tensor times = torch::tensor(solver.times, torch::kDouble);
  torch::Tensor x = torch::empty_like(start);
  std::vector<torch::Tensor> terms = {start};
  std::vector<double> coefficients;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    const auto step = static_cast<int64_t>(i);
    const torch::Tensor t = times.slice(0, step, step + 1).expand({start.size(0)});
    const torch::Tensor& here = i == 0 ? start : x;
    terms.push_back(kept(field.velocity(here, t, conditions), here));
    coefficients.assign(1, solver.a[i]);
    coefficients.insert(coefficients.end(), solver.b[i].begin(), solver.b[i].end());
    if (!combine(x, terms, coefficients))
      report_not_finite(solver, i, terms.back(), x, first_sample);
    if (on_step) {
      on_step({static_cast<int>(i), solver.times[i], solver.times[i + 1], x, terms.back()});
    }
  }
  return x;
}

}  // namespace bespoke
