#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/base/team.h"
#include "bespoke/distill/adam.h"
#include "bespoke/model/model.h"
#include "bespoke/recipe/pairs.h"
#include "bespoke/run/samples.h"

namespace bespoke {

// From a sample to the space errors are measured in; differentiable. None is the identity.
using Decode = std::function<torch::Tensor(const torch::Tensor&)>;

struct TensorSamplesOptions {
  Decode decode;
  // Which numbers count, as EvaluationOptions::mask says, for samples with these conditions; none
  // or an undefined tensor: all.
  std::function<torch::Tensor(const Conditions&)> mask;
  int64_t device_batch = 64;  // samples given to the model at once
  // As in EvaluationOptions. distill(model) joins runs elsewhere than on a CPU.
  bool joins_runs = false;
  Team* team = &alone();
};

// The samples of a field and pairs of LibTorch tensors; r = decode(x_n) - decode(x(1)).
Samples tensor_samples(const std::shared_ptr<const Field>& field, const Pairs& pairs,
                       const TensorSamplesOptions& options = {});

// The same of a model in the canonical coordinates of its path, as distillation asks.
Samples canonical_samples(const ModelPtr& model, const Pairs& pairs,
                          const TensorSamplesOptions& options = {});

// The loss of solvers on pairs, and its gradient by a sweep back through the model.
class TensorGradients : public LossGradients {
 public:
  TensorGradients(std::shared_ptr<const Field> field, const Pairs& pairs,
                  TensorSamplesOptions options = {});

  LossGradient at(const NsSolver& solver, const std::vector<int64_t>& samples,
                  Counts* counts) const override;

 private:
  // Of this member's part of the samples, each with the same weight.
  LossGradient own(const NsSolver& solver, const std::vector<int64_t>& samples, double weight,
                   Counts* counts) const;

  std::shared_ptr<const Field> field_;
  Pairs pairs_;
  TensorSamplesOptions options_;
  torch::Tensor mask_;  // undefined: all numbers count
};

}  // namespace bespoke
