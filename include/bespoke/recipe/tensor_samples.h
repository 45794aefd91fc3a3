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

// Takes samples to the space errors are measured in; differentiable. None: they are in it.
using Decode = std::function<torch::Tensor(const torch::Tensor&)>;

struct TensorSamplesOptions {
  Decode decode;
  // Tells which numbers of samples with these conditions count, as EvaluationOptions::mask says;
  // none, or an undefined tensor: all.
  std::function<torch::Tensor(const Conditions&)> mask;
  int64_t device_batch = 64;  // samples given to the model at once
  // Whether runs are joined, as in EvaluationOptions; distill(model) joins them on devices other
  // than the CPU.
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
  // The loss and gradient of this member's part of the samples, each with the same weight.
  LossGradient own(const NsSolver& solver, const std::vector<int64_t>& samples, double weight,
                   Counts* counts) const;

  std::shared_ptr<const Field> field_;
  Pairs pairs_;
  TensorSamplesOptions options_;
  torch::Tensor mask_;  // undefined: all numbers count
};

}  // namespace bespoke
