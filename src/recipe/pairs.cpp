#include "bespoke/recipe/pairs.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/sample/in_batches.h"

namespace bespoke {

Pairs Pairs::to(torch::Device device, torch::ScalarType dtype) const {
  return {x0.to(device, dtype), x1.to(device, dtype), conditions, evaluations, trajectories};
}

Pairs make_pairs(const ModelPtr& model, const PairSource& source, const PairRun& run) {
  Pairs pairs;
  // Rounded before it is used: x1 belongs to the x0 that is kept.
  pairs.x0 = starting_noise(*model, static_cast<uint64_t>(source.seed),
                            static_cast<uint64_t>(source.first), source.count)
                 .to(state_dtype(*model));
  pairs.conditions = source.conditions;
  ReferenceResult result =
      reference_in_batches(model, pairs.x0.to(run.device), source.conditions, source.tolerances,
                           {run.batch, source.first, run.on_progress, {}}, source.trajectories);
  pairs.x1 = result.x.to(pairs.x0.scalar_type());
  pairs.evaluations = result.evaluations;
  if (source.trajectories > 0) {
    pairs.trajectories = std::make_shared<DenseTrajectories>(std::move(result.trajectories));
  }
  return pairs;
}

}  // namespace bespoke
