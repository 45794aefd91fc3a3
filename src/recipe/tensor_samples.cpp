#include "bespoke/recipe/tensor_samples.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/model/guidance.h"
#include "bespoke/sample/tensor_field.h"
#include "bespoke/tensor/tensor_arrays.h"

namespace bespoke {

Samples tensor_samples(const std::shared_ptr<const Field>& field, const Pairs& pairs,
                       const TensorSamplesOptions& options) {
  const torch::NoGradGuard no_grad;
  // States are float32 or wider.
  const auto wide = [](const torch::Tensor& x) {
    return x.scalar_type() == torch::kDouble ? x : x.to(torch::kFloat);
  };
  EvaluationOptions own;
  own.batch = options.device_batch;
  own.joins_runs = options.joins_runs;
  own.team = options.team;
  if (options.mask) {
    const torch::Tensor mask = options.mask(pairs.conditions);
    if (mask.defined())
      own.mask = array_of(mask.to(pairs.x0.device(), wide(pairs.x0).scalar_type()));
  }
  if (options.decode) {
    own.decode = [decode = options.decode](const Array& x) {
      const torch::NoGradGuard inner_no_grad;
      return array_of(decode(tensor_of(x)));
    };
  }
  return {tensor_field(field, near(pairs.conditions, pairs.x0.device())), array_of(wide(pairs.x0)),
          array_of(pairs.x1), pairs.trajectories, std::move(own)};
}

}  // namespace bespoke
