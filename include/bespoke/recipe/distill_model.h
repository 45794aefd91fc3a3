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
  // Pairs to train on; none: made, with their trajectories, as training_plan says.
  std::optional<Pairs> training;
  // Pairs to choose the best solver by; none: made as validation_plan says.
  std::optional<Pairs> validation;
  // How many training pairs are made, and their seed; a method with gradients needs hundreds.
  SplitPlan training_plan = {96, 1};
  // How many validation pairs are made, and their seed; where none, the training pairs choose.
  SplitPlan validation_plan = {32, 2};
  std::optional<Tolerances> tolerances;  // none: usual_tolerances(nfe)
  int64_t fixed_evaluations = 0;         // for each sample instead, as in ReferenceOptions
  // Told of every pair left out because its x1 is not finite. More than half of them are an Error
  // (diverged).
  std::function<void(Split, int64_t pair)> on_left_out;
  // Pairs whose statistics are matched, where statistics are; none: match_samples are made, from
  // the noise that follows that of the training pairs. Without features (match.features) the
  // statistics are those of plain_tensor_features.
  std::optional<Pairs> matching;
  int64_t match_samples = 768;  // as usual_match_samples says for up to 384 features
  // How exact these are; statistics need no exact samples.
  Tolerances match_tolerances = {1e-3, 1e-3};
  // The condition whose values, such as classes, say which of these pairs are of one group
  // (match.groups); empty: all are.
  std::string match_groups;
  // The conditions of pairs made now; null: none.
  PairConditions conditions;

  torch::Device device = torch::kCPU;  // where the model computes
  // The team that works on it, each member with the same model, options and state; all find the
  // same solver, and every callback is called for each.
  Team* team = &alone();
  TensorSamplesOptions samples;  // batches and the space of errors
  // Told what the run goes on with where memory ran out: batches are halved then, and it continues
  // from its last iteration.
  std::function<void(const TensorSamplesOptions&)> on_less_memory;
};

// The options with a plan of how many samples are drawn, and by how many evaluations, so that
// most_calls pays for everything (call_plan.h). `samples` are to learn from; 0: as many as the
// plan says. Method adam, whose pairs are many, has no such plan: a usage error.
ModelDistillOptions within_calls(ModelDistillOptions options, int64_t samples = 0);

// How many samples to match statistics on so many calls pay for, if two thirds of the calls are to
// be left.
int64_t match_samples_within(int64_t calls);

// Finds the solver of `nfe` evaluations that best reproduces the reference samples. The model,
// guided where it is to be, stays as it is; adam needs its gradients in x and t, the other methods
// only call it. Where pairs are made now, their calls count towards most_calls.
DistillSummary distill(const ModelPtr& model, const ModelDistillOptions& options = {},
                       DistillState state = {});

}  // namespace bespoke
