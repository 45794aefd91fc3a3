#include "bespoke/sample/adjoint.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/distill/family.h"
#include "bespoke/run/solver_run.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

namespace {

RecordedStep record_step(const Field& field, const torch::Tensor& x, double t,
                         const Conditions& conditions, Counts* counts) {
  const torch::AutoGradMode with_grad(true);
  RecordedStep step;
  step.x = x.detach().requires_grad_();
  // One value, expanded: fields evaluate schedules once for the whole batch.
  step.t = torch::full({1}, t, torch::kDouble).expand({x.size(0)}).detach().requires_grad_();
  step.u = field.velocity(step.x, step.t, conditions);
  counts->forwards += x.size(0);
  return step;
}

// What one step back yields for one cotangent: lambda_i and d t_i.
struct PulledBack {
  torch::Tensor state, time;
};

PulledBack pull_back(const RecordedStep& step, const torch::Tensor& mu) {
  PulledBack result;
  if (step.u.requires_grad()) {
    const auto gradients =
        torch::autograd::grad({step.u}, {step.x, step.t}, {mu.to(step.u.scalar_type())},
                              /*retain_graph=*/false, /*create_graph=*/false,
                              /*allow_unused=*/true);
    result = {gradients[0], gradients[1]};
  }
  // A field need not depend on the state, nor on time (a model with integer times does not).
  if (!result.state.defined()) result.state = torch::zeros_like(step.x);
  if (!result.time.defined()) result.time = torch::zeros_like(step.t);
  return {result.state.detach().contiguous(), result.time.detach()};
}

// mu_i = sum_{k >= i} b_ki lambda_{k+1}; lambdas are given from lambda_{i+1} on.
torch::Tensor cotangent_of_velocity(const NsSolver& solver, size_t i,
                                    const std::vector<torch::Tensor>& lambdas) {
  std::vector<torch::Tensor> terms;
  std::vector<double> coefficients;
  for (size_t k = i; k < solver.a.size(); ++k) {
    terms.push_back(lambdas[k + 1]);
    coefficients.push_back(solver.b[k][i]);
  }
  torch::Tensor mu = torch::empty_like(terms.front());
  combine(mu, terms, coefficients);
  return mu;
}

// Where the gradients of step i lie among the coefficients.
struct CoefficientPlaces {
  int64_t n;
  int64_t time(size_t i) const { return static_cast<int64_t>(i); }
  int64_t a(size_t i) const { return n + 1 + static_cast<int64_t>(i); }
  int64_t b(size_t i) const { return 2 * n + 1 + static_cast<int64_t>(i * (i + 1) / 2); }
  int64_t start_scale() const { return b(static_cast<size_t>(n)); }
};

}  // namespace

Trajectory run_trajectory(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                          const Conditions& conditions, Counts* counts) {
  require_one_velocity(solver, "the sweep back");
  Trajectory run{solver, {solver.start_scale * noise_state(x0)}, {}, {}};
  for (size_t i = 0; i < solver.a.size(); ++i) {
    run.recorded.push_back(record_step(field, run.x.back(), solver.times[i], conditions, counts));
    run.u.push_back(kept_velocity(run.recorded.back().u, run.x.back()));
    torch::Tensor next = torch::empty_like(run.x.front());
    std::vector<torch::Tensor> terms = {run.x.front()};
    terms.insert(terms.end(), run.u.begin(), run.u.end());
    if (!combine(next, terms, step_coefficients(solver, i))) {
      report_not_finite(*tensor_arrays(), solver, i, array_of(run.u.back()), array_of(next), 0);
    }
    run.x.push_back(next);
  }
  return run;
}

torch::Tensor sweep_back(Trajectory trajectory, const torch::Tensor& cotangent, Counts* counts) {
  const NsSolver& solver = trajectory.solver;
  const size_t n = solver.a.size();
  const torch::Tensor& x0 = trajectory.x.front();
  const CoefficientPlaces columns{static_cast<int64_t>(n)};
  torch::Tensor rows =
      torch::zeros({x0.size(0), static_cast<int64_t>(coefficient_count(solver.nfe()))},
                   x0.options().dtype(torch::kDouble));
  std::vector<torch::Tensor> lambdas(n + 1);
  lambdas[n] = cotangent.detach().to(x0.scalar_type()).contiguous();
  for (size_t i = n; i-- > 0;) {
    std::vector<torch::Tensor> terms = {x0};
    terms.insert(terms.end(), trajectory.u.begin(),
                 trajectory.u.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    const torch::Tensor products = inner_products(lambdas[i + 1], terms);
    rows.select(1, columns.a(i)).copy_(products.select(1, 0));
    rows.narrow(1, columns.b(i), static_cast<int64_t>(i) + 1)
        .copy_(products.narrow(1, 1, static_cast<int64_t>(i) + 1));
    const PulledBack back =
        pull_back(trajectory.recorded[i], cotangent_of_velocity(solver, i, lambdas));
    trajectory.recorded[i] = {};  // its graph is no longer needed
    lambdas[i] = back.state;
    rows.select(1, columns.time(i)).copy_(back.time);
    counts->vjps += x0.size(0);
  }
  // x_0 enters as the state of u_0 and, times a_i, every later one.
  torch::Tensor product = inner_products(lambdas[0], {x0}).select(1, 0);
  for (size_t i = 0; i < n; ++i) {
    product = product + solver.a[i] * rows.select(1, columns.a(i));
  }
  rows.select(1, columns.start_scale()).copy_(product / solver.start_scale);
  return rows.to(torch::kCPU);
}

}  // namespace bespoke
