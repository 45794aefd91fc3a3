#include "bespoke/sample/adjoint.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/distill/family.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"
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

PulledBack pull_back(const RecordedStep& step, const torch::Tensor& mu, bool keep_graph) {
  PulledBack result;
  if (step.u.requires_grad()) {
    const auto gradients =
        torch::autograd::grad({step.u}, {step.x, step.t}, {mu.to(step.u.scalar_type())},
                              /*retain_graph=*/keep_graph, /*create_graph=*/false,
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
struct Columns {
  int64_t n;
  int64_t time(size_t i) const { return static_cast<int64_t>(i); }
  int64_t a(size_t i) const { return n + 1 + static_cast<int64_t>(i); }
  int64_t b(size_t i) const { return 2 * n + 1 + static_cast<int64_t>(i * (i + 1) / 2); }
  int64_t start_scale() const { return b(static_cast<size_t>(n)); }
};

}  // namespace

Trajectory run_trajectory(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                          const Conditions& conditions, Memory memory, Counts* counts) {
  Trajectory run{solver, conditions, {start_state(solver, x0)}, {}, {}};
  for (size_t i = 0; i < solver.a.size(); ++i) {
    // With the graph even where it is not kept: some fields compute differently without one, and
    // both kinds of memory must give the same bits.
    RecordedStep step = record_step(field, run.x.back(), solver.times[i], conditions, counts);
    run.u.push_back(kept_velocity(step.u, run.x.back()));
    if (memory == Memory::high) run.recorded.push_back(std::move(step));
    torch::Tensor next = torch::empty_like(run.x.front());
    if (!combine_step(solver, i, run.x.front(), run.u, next)) {
      report_not_finite(solver, i, run.u.back(), next, 0);
    }
    run.x.push_back(next);
  }
  return run;
}

torch::Tensor sweep_back(const Trajectory& trajectory, const Field& field,
                         const std::vector<torch::Tensor>& cotangents, Counts* counts) {
  const NsSolver& solver = trajectory.solver;
  const size_t n = solver.a.size();
  const int64_t batch = trajectory.x.front().size(0);
  const Columns columns{static_cast<int64_t>(n)};
  const auto sets = static_cast<int64_t>(cotangents.size());
  torch::Tensor rows =
      torch::zeros({sets, batch, static_cast<int64_t>(coefficient_count(solver.nfe()))},
                   trajectory.x.front().options().dtype(torch::kDouble));
  std::vector<std::vector<torch::Tensor>> lambdas(cotangents.size(),
                                                  std::vector<torch::Tensor>(n + 1));
  for (size_t k = 0; k < cotangents.size(); ++k) {
    lambdas[k][n] = cotangents[k].detach().to(trajectory.x.back().scalar_type()).contiguous();
  }
  for (size_t i = n; i-- > 0;) {
    std::vector<torch::Tensor> known = {trajectory.x.front()};
    known.insert(known.end(), trajectory.u.begin(),
                 trajectory.u.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    for (int64_t k = 0; k < sets; ++k) {
      const torch::Tensor products = inner_products(lambdas[static_cast<size_t>(k)][i + 1], known);
      rows[k].select(1, columns.a(i)).copy_(products.select(1, 0));
      rows[k]
          .narrow(1, columns.b(i), static_cast<int64_t>(i) + 1)
          .copy_(products.narrow(1, 1, static_cast<int64_t>(i) + 1));
    }
    const RecordedStep step =
        trajectory.recorded.empty()
            ? record_step(field, trajectory.x[i], solver.times[i], trajectory.conditions, counts)
            : trajectory.recorded[i];
    for (int64_t k = 0; k < sets; ++k) {
      auto& own = lambdas[static_cast<size_t>(k)];
      const bool keep_graph = k + 1 < sets || !trajectory.recorded.empty();
      const PulledBack back = pull_back(step, cotangent_of_velocity(solver, i, own), keep_graph);
      own[i] = back.state;
      rows[k].select(1, columns.time(i)).copy_(back.time);
      counts->vjps += batch;
    }
  }
  // x_0 enters as the state of u_0 and, times a_i, every later one.
  for (int64_t k = 0; k < sets; ++k) {
    torch::Tensor product =
        inner_products(lambdas[static_cast<size_t>(k)][0], {trajectory.x.front()}).select(1, 0);
    for (size_t i = 0; i < n; ++i) {
      product = product + solver.a[i] * rows[k].select(1, columns.a(i));
    }
    rows[k].select(1, columns.start_scale()).copy_(product / solver.start_scale);
  }
  return rows.to(torch::kCPU);
}

}  // namespace bespoke
