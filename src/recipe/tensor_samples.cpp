#include "bespoke/recipe/tensor_samples.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/model/guidance.h"
#include "bespoke/run/canonical_samples.h"
#include "bespoke/sample/tensor_field.h"
#include "bespoke/tensor/tensor_arrays.h"

namespace bespoke {

namespace {

// States are float32 or wider.
Array wide(const torch::Tensor& x) {
  return array_of(x.scalar_type() == torch::kDouble ? x : x.to(torch::kFloat));
}

EvaluationOptions evaluation_options(const TensorSamplesOptions& options, const Pairs& pairs) {
  EvaluationOptions evaluation;
  evaluation.batch = options.device_batch;
  evaluation.joins_runs = options.joins_runs;
  evaluation.team = options.team;
  if (options.mask) {
    const torch::Tensor mask = options.mask(pairs.conditions);
    if (mask.defined()) evaluation.mask = wide(mask.to(pairs.x0.options()));
  }
  if (options.decode) {
    evaluation.decode = [decode = options.decode](const Array& x) {
      const torch::NoGradGuard no_grad;
      return array_of(decode(tensor_of(x)));
    };
  }
  return evaluation;
}

}  // namespace

Samples tensor_samples(const std::shared_ptr<const Field>& field, const Pairs& pairs,
                       const TensorSamplesOptions& options) {
  const torch::NoGradGuard no_grad;
  return {tensor_field(field, conditions_on(pairs.conditions, pairs.x0.device())), wide(pairs.x0),
          array_of(pairs.x1), pairs.trajectories, evaluation_options(options, pairs)};
}

Samples canonical_samples(const ModelPtr& model, const Pairs& pairs,
                          const TensorSamplesOptions& options) {
  const torch::NoGradGuard no_grad;
  return canonical_samples(tensor_field(model, conditions_on(pairs.conditions, pairs.x0.device())),
                           wide(pairs.x0), array_of(pairs.x1), pairs.trajectories,
                           evaluation_options(options, pairs));
}

}  // namespace bespoke
