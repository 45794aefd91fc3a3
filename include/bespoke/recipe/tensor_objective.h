#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/distill/objective.h"
#include "bespoke/model/model.h"
#include "bespoke/recipe/pairs.h"
#include "bespoke/sample/adjoint.h"

namespace bespoke {

// From a sample to the space errors are measured in; differentiable. None is the identity.
using Decode = std::function<torch::Tensor(const torch::Tensor&)>;

struct TensorObjectiveOptions {
  Decode decode;
  Memory memory = Memory::low;  // high keeps the graphs of a whole batch
  int64_t device_batch = 64;    // samples given to the model at once
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
  LocalModel local_model(const NsSolver& solver, const std::vector<int64_t>& subset,
                         const LocalModelOptions& options, Counts* counts) const override;

 private:
  struct Chunk;
  struct Run;
  template <class Work>
  void for_each_chunk(const std::vector<int64_t>& subset, Work work) const;
  torch::Tensor decode(const torch::Tensor& x) const;
  torch::Tensor residual(const torch::Tensor& x, const Chunk& chunk) const;
  static double geometric_mean_square(const std::vector<Run>& runs);
  std::vector<double> refit(std::vector<Run>& runs, double floor) const;

  std::shared_ptr<const Field> field_;
  Pairs pairs_;
  TensorObjectiveOptions options_;
  torch::Tensor targets_;  // decode(x1)
};

}  // namespace bespoke
