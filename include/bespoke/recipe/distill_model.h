#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "bespoke/base/team.h"
#include "bespoke/distill/distill.h"
#include "bespoke/distill/reference_tolerance.h"
#include "bespoke/recipe/pair_manifest.h"
#include "bespoke/recipe/pairs.h"
#include "bespoke/recipe/tensor_features.h"
#include "bespoke/recipe/tensor_samples.h"

namespace bespoke {

// How to distil a solver for a model. Every option has a default that works; `field` is filled in
// from the model where it has no schedule.
struct ModelDistillOptions : DistillOptions {
  // Pairs to train on and to choose the best solver by. Where there are none they are made, with
  // their trajectories, as many as these plans say; a method with gradients needs hundreds. Where
  // validation_plan has none, the training pairs choose.
  std::optional<Pairs> training, validation;
  SplitPlan training_plan = {96, 1}, validation_plan = {32, 2};
  std::optional<Tolerances> tolerances;  // none: usual_tolerances(nfe)
  int64_t fixed_evaluations = 0;         // of each sample instead, as in ReferenceOptions
  // Told of every pair left out because its x1 is not finite. More than half of them are an Error
  // (diverged).
  std::function<void(Split, int64_t pair)> on_left_out;
  // Whose statistics are matched, where they are; none: made, as many as said, from the noise that
  // follows that of the training pairs. Statistics need no exact samples.
  // Without features (match.features) they are those of plain_tensor_features.
  std::optional<Pairs> matching;
  int64_t match_samples = 768;  // usual_match_samples of up to 384 features
  Tolerances match_tolerances = {1e-3, 1e-3};
  // The condition whose values, such as classes, say which of them are of one group (match.groups);
  // empty: all are.
  std::string match_groups;
  // The conditions of pairs made now; null: none.
  PairConditions conditions;

  torch::Device device = torch::kCPU;  // where the model computes
  // That works on it together, each with the same model, options and state; all find the same
  // solver, and every callback is called for each.
  Team* team = &alone();
  TensorSamplesOptions samples;
  // Where memory runs out, batches are halved and the run goes on from its last iteration. Told
  // what it goes on with.
  std::function<void(const TensorSamplesOptions&)> on_less_memory;
};

// Options whose most_forwards are to pay for everything (call_plan.h): how many samples are drawn,
// by how many evaluations, so many to learn from where `samples` is not 0. Method adam, whose pairs
// are many, has no such plan: a usage error.
ModelDistillOptions within_calls(ModelDistillOptions options, int64_t samples = 0);

// How many samples so many calls pay for to match statistics on, and leave two thirds of the calls.
int64_t match_samples_within(int64_t calls);

// Finds the solver of `nfe` evaluations that best reproduces the model's own samples. The model,
// guided where it is to be, stays as it is; adam needs its gradients in x and t, the other methods
// only call it. Where pairs are made now and most_forwards is set, they come out of it.
DistillSummary distill(const ModelPtr& model, const ModelDistillOptions& options = {},
                       DistillState state = {});

}  // namespace bespoke
