// Runs of solvers on samples, as the questions about them share them.

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/recipe/tensor_objective.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"
#include "tensor_columns.h"

namespace bespoke {

using namespace detail;

namespace {

PlainRun run_alone(const NsSolver& solver, const Field& field, const SampleChunk& chunk) {
  PlainRun run{chunk, {solver.start_scale * chunk.x0}, {}, {}};
  sample(solver, field, chunk.x0, chunk.conditions, [&](const StepInfo& info) {
    run.x.push_back(info.x.clone());
    run.u.push_back(info.velocity);
    if (info.difference.defined()) run.d.push_back(info.difference);
  });
  return run;
}

// A number of each solver, for all of its samples: [solvers * samples].
std::vector<double> for_all_samples(const std::vector<double>& of_solvers, int64_t samples) {
  std::vector<double> rows;
  for (const double value : of_solvers)
    rows.insert(rows.end(), static_cast<size_t>(samples), value);
  return rows;
}

torch::Tensor start_of(const std::vector<NsSolver>& solvers, const torch::Tensor& noise) {
  std::vector<torch::Tensor> starts;
  for (const NsSolver& solver : solvers) starts.push_back(solver.start_scale * noise);
  return torch::cat(starts);
}

torch::Tensor times_of(const std::vector<NsSolver>& solvers, size_t step, int64_t samples) {
  std::vector<double> times;
  for (const NsSolver& solver : solvers) times.push_back(solver.times[step]);
  return torch::tensor(for_all_samples(times, samples), torch::kDouble);
}

// By column, then by row.
std::vector<std::vector<double>> coefficients_of(const std::vector<NsSolver>& solvers, size_t step,
                                                 int64_t samples) {
  std::vector<std::vector<double>> by_solver;
  for (const NsSolver& solver : solvers) by_solver.push_back(step_coefficients(solver, step));
  std::vector<std::vector<double>> by_column;
  for (size_t column = 0; column < by_solver.front().size(); ++column) {
    std::vector<double> values;
    for (const auto& coefficients : by_solver) values.push_back(coefficients[column]);
    by_column.push_back(for_all_samples(values, samples));
  }
  return by_column;
}

// Those of one solver, of runs side by side.
std::vector<torch::Tensor> rows_of_solver(const std::vector<torch::Tensor>& all, size_t solver,
                                          int64_t samples) {
  const auto begin = static_cast<int64_t>(solver) * samples;
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& tensor : all) rows.push_back(tensor.slice(0, begin, begin + samples));
  return rows;
}

// Runs of solvers of one shape on the same samples, in one batch: sample s of solver k is row
// k * samples + s. They may stop being finite.
std::vector<PlainRun> run_side_by_side(const std::vector<NsSolver>& solvers, const Field& field,
                                       const SampleChunk& chunk) {
  const SolverShape shape = solvers.front().shape();
  const int64_t samples = chunk.x0.size(0);
  const Conditions conditions = repeat(chunk.conditions, static_cast<int64_t>(solvers.size()));
  std::vector<torch::Tensor> x = {start_of(solvers, chunk.x0)}, u, d;
  for (size_t step = 0; step < solvers.front().a.size(); ++step) {
    const GuidanceParts parts =
        evaluate(shape, step, field, x.back(), times_of(solvers, step, samples), conditions);
    u.push_back(parts.conditional.detach().contiguous());
    if (parts.difference.defined()) d.push_back(parts.difference.detach().contiguous());
    torch::Tensor next = torch::empty_like(x.front());
    combine_per_sample(next, columns_of(x.front(), u, d), coefficients_of(solvers, step, samples));
    x.push_back(next);
  }
  std::vector<PlainRun> runs;
  for (size_t k = 0; k < solvers.size(); ++k) {
    runs.push_back({chunk, rows_of_solver(x, k, samples), rows_of_solver(u, k, samples),
                    rows_of_solver(d, k, samples)});
  }
  return runs;
}

// Where the samples of `wanted` are in `all`; empty where some are not.
std::vector<int64_t> positions_in(const std::vector<int64_t>& all,
                                  const std::vector<int64_t>& wanted) {
  std::vector<int64_t> positions;
  for (const int64_t sample : wanted) {
    const auto found = std::find(all.begin(), all.end(), sample);
    if (found == all.end()) return {};
    positions.push_back(found - all.begin());
  }
  return positions;
}

PlainRun rows_of_run(const PlainRun& run, const std::vector<int64_t>& positions) {
  const auto chosen = [&](const std::vector<torch::Tensor>& all) {
    std::vector<torch::Tensor> rows;
    for (const torch::Tensor& tensor : all) rows.push_back(rows_of(tensor, positions));
    return rows;
  };
  return {{rows_of(run.chunk.x0, positions), rows_of(run.chunk.target, positions),
           select(run.chunk.conditions, torch::tensor(positions))},
          chosen(run.x),
          chosen(run.u),
          chosen(run.d)};
}

}  // namespace

std::optional<TensorObjective::PlainRuns> TensorObjective::known_runs(
    const NsSolver& solver, const std::vector<int64_t>& subset) const {
  for (const KnownRuns& known : known_) {
    if (!same_evaluations(known.solver, solver)) continue;
    PlainRuns runs;
    if (known.subset == subset) {
      runs = known.runs;
    } else if (options_.runs_ahead && known.runs.size() == 1) {
      // Elsewhere a run that goes on must find what an unbroken one had, to the bit, and a
      // network's answer about a sample may depend on those beside it.
      const auto positions = positions_in(known.subset, subset);
      if (positions.empty()) continue;
      runs = {rows_of_run(known.runs.front(), positions)};
    } else {
      continue;
    }
    if (known.solver == solver) return runs;
    for (PlainRun& run : runs) {
      run.x.back() = combined(columns_of(run), step_coefficients(solver, solver.a.size() - 1));
    }
    return runs;
  }
  return {};
}

TensorObjective::PlainRuns TensorObjective::plain_runs(const NsSolver& solver,
                                                       const std::vector<int64_t>& subset,
                                                       Counts* counts) const {
  const torch::NoGradGuard no_grad;
  if (auto known = known_runs(solver, subset)) return std::move(*known);
  PlainRuns runs;
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t) {
    runs.push_back(run_alone(solver, *field_, chunk));
    counts->forwards += chunk.x0.size(0) * solver.shape().calls();
  });
  known_ = {{solver, subset, runs}};
  return runs;
}

void TensorObjective::run_ahead(const std::vector<NsSolver>& solvers,
                                const std::vector<int64_t>& subset, Counts* counts) const {
  const auto rows = static_cast<int64_t>(solvers.size() * subset.size());
  if (!options_.runs_ahead || rows == 0 || rows > options_.device_batch) return;
  const torch::NoGradGuard no_grad;
  known_.clear();
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t) {
    const std::vector<PlainRun> runs = run_side_by_side(solvers, *field_, chunk);
    counts->forwards += rows * solvers.front().shape().calls();
    for (size_t k = 0; k < solvers.size(); ++k) {
      const bool finite = torch::isfinite(torch::stack(runs[k].x)).all().item<bool>();
      if (finite) known_.push_back({solvers[k], subset, {runs[k]}});
    }
  });
}

}  // namespace bespoke
