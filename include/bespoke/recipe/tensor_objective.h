#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bespoke/distill/objective.h"
#include "bespoke/model/model.h"
#include "bespoke/recipe/pairs.h"

namespace bespoke {

// From a sample to the space errors are measured in; differentiable. None is the identity.
using Decode = std::function<torch::Tensor(const torch::Tensor&)>;

struct TensorObjectiveOptions {
  Decode decode;
  int64_t device_batch = 64;  // samples given to the model at once
  // Whether run_ahead runs solvers ahead, as far as they fit into one batch: for devices on which a
  // large batch costs less than several small ones. distill(model) does so elsewhere than on a CPU.
  bool runs_ahead = false;
};

// Some samples of the pairs, together on the device.
struct SampleChunk {
  torch::Tensor x0, target;
  Conditions conditions;
};

// A run of a solver on them, without gradients: x_0 ... x_n, u_0 ... u_{n-1}, and of one that
// guides itself the differences of its guided steps.
struct PlainRun {
  SampleChunk chunk;
  std::vector<torch::Tensor> x, u, d;
};

// The objective of a field and pairs of LibTorch tensors; r = decode(x_n) - decode(x(1)).
class TensorObjective : public Objective {
 public:
  TensorObjective(std::shared_ptr<const Field> field, Pairs pairs, TensorObjectiveOptions options);

  int64_t count() const override { return pairs_.count(); }
  double sample_size() const override;
  double data_deviation() const override;
  bool is_linear() const override { return !options_.decode; }
  std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& subset,
                                 Counts* counts) const override;
  LinearModel last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                        Counts* counts) const override;
  int64_t trajectories() const override;
  std::unique_ptr<StepwiseRun> begin_run(const SolverShape& shape,
                                         const std::vector<int64_t>& subset,
                                         Counts* counts) const override;
  void run_ahead(const std::vector<NsSolver>& solvers, const std::vector<int64_t>& subset,
                 Counts* counts) const override;
  std::vector<std::optional<LinearModel>> against(const NsSolver& solver,
                                                  const std::vector<const Linearisation*>& all,
                                                  Counts* counts) const override;
  std::unique_ptr<Linearisation> linearise(const NsSolver& solver,
                                           const std::vector<int64_t>& subset,
                                           const std::vector<Change>& changes,
                                           Counts* counts) const override;
  LossGradient loss_gradient(const NsSolver& solver, const std::vector<int64_t>& subset,
                             Counts* counts) const override;

 private:
  class Steps;
  class Columns;
  using PlainRuns = std::vector<PlainRun>;
  void for_each_chunk(const std::vector<int64_t>& subset,
                      const std::function<void(const SampleChunk&, int64_t begin)>& work) const;
  torch::Tensor decode(const torch::Tensor& x) const;
  // Of the samples at the end of a solver's run.
  torch::Tensor residuals(const NsSolver& solver, const std::vector<int64_t>& subset,
                          Counts* counts) const;
  torch::Tensor residual(const torch::Tensor& x, const SampleChunk& chunk) const;
  // Runs on some samples, in batches: made now, or those last made.
  PlainRuns plain_runs(const NsSolver& solver, const std::vector<int64_t>& subset,
                       Counts* counts) const;
  std::optional<PlainRuns> known_runs(const NsSolver& solver,
                                      const std::vector<int64_t>& subset) const;
  // Columns of x, [batch, columns, ...], as those of decode(x), whose residual is r.
  torch::Tensor decoded_columns(const torch::Tensor& columns, const torch::Tensor& x,
                                const SampleChunk& chunk, const torch::Tensor& r) const;

  std::shared_ptr<const Field> field_;
  Pairs pairs_;
  TensorObjectiveOptions options_;
  torch::Tensor targets_;  // decode(x1)

  // The runs last made: the next question is often about the same. Those made ahead are one batch.
  struct KnownRuns {
    NsSolver solver;
    std::vector<int64_t> subset;
    PlainRuns runs;
  };
  mutable std::vector<KnownRuns> known_;
};

}  // namespace bespoke
