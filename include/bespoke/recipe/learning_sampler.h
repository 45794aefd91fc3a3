#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/model/model.h"
#include "bespoke/recipe/pairs.h"
#include "bespoke/run/multistep.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

struct LearningOptions {
  int nfe = 8;                              // of the solver that is learnt
  BnsConstraints constraints;               // and what it must be like
  int64_t samples = 8;                      // it is learnt from the first so many; more gain little
  int64_t evaluations = kUsualEvaluations;  // of each of those
};

// What was learnt, and from how much.
struct LearntSolver {
  NamedSolver solver;
  // The mean log error on samples it has not seen, as left_out_loss estimates it; of one sample, on
  // that.
  double loss = 0;
  int64_t samples = 0;
  int64_t calls = 0;  // of the model, all in: for the samples and for fits
};

// Draws samples of a model and learns from the first of them how to draw the others in few
// evaluations: no training, no step beforehand. The first are drawn by 30 evaluations each, nearer
// to the model's own than any that follow, and the solver is fitted to their ways there as soon as
// another is wanted. Nothing is learnt from a call that ends in an error.
class LearningSampler {
 public:
  LearningSampler(ModelPtr model, LearningOptions options = {});

  // The samples of this noise [count, ...], in order, on the CPU; computed where the noise lies.
  torch::Tensor sample(const torch::Tensor& x0, const Conditions& conditions = {},
                       const Batching& batching = {});

  const std::optional<LearntSolver>& learnt() const { return learnt_; }

 private:
  // The samples that are still to be learnt from, as many as there are in this noise.
  torch::Tensor draw_first(const torch::Tensor& x0, const Conditions& conditions,
                           const Batching& batching);
  LearntSolver learn(const Batching& batching) const;

  ModelPtr model_;
  LearningOptions options_;
  Pairs lesson_;  // those drawn so far, none before the first
  std::optional<LearntSolver> learnt_;
};

}  // namespace bespoke
