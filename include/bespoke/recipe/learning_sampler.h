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

// What is learnt, and from how much.
struct LearningOptions {
  int nfe = 8;                              // of the solver that is learnt
  BnsConstraints constraints;               // what the solver must be like
  int64_t samples = 8;                      // how many it is learnt from; more gain little
  int64_t evaluations = kUsualEvaluations;  // for each of those
};

// What was learnt, and from how much.
struct LearntSolver {
  NamedSolver solver;  // what the samples behind the first are drawn with
  // The mean log error on samples it has not seen, as left_out_loss estimates it; where it is
  // learnt from one sample, on that.
  double loss = 0;
  int64_t samples = 0;  // that it was learnt from
  int64_t calls = 0;    // of the model, all in: for the samples and for fits
};

// Draws samples of a model and learns from the first of them how to draw the others in few
// evaluations: no training, no step beforehand. The first are drawn by 30 evaluations each, nearer
// to the reference samples than any that follow, and the solver is fitted to their trajectories as
// soon as another is wanted. Nothing is learnt from a call that ends in an error.
class LearningSampler {
 public:
  // A sampler that has learnt nothing yet.
  LearningSampler(ModelPtr model, LearningOptions options = {});

  // Draws samples from this noise [count, ...], in order, computed where the noise lies and
  // returned on the CPU.
  torch::Tensor sample(const torch::Tensor& x0, const Conditions& conditions = {},
                       const Batching& batching = {});

  // What was learnt; none before the first samples have been drawn.
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
