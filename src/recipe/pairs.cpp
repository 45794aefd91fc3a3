#include "bespoke/recipe/pairs.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
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
  ReferenceResult result = reference_in_batches(
      model, pairs.x0.to(run.device), source.conditions, source.tolerances,
      {run.batch, source.first, run.on_progress, {}, run.on_given_up, run.team},
      source.trajectories, source.fixed_evaluations);
  pairs.x1 = result.x.to(pairs.x0.scalar_type());
  pairs.evaluations = result.evaluations;
  if (source.trajectories > 0) {
    pairs.trajectories = std::make_shared<DenseTrajectories>(std::move(result.trajectories));
  }
  return pairs;
}

namespace {

DenseTrajectories chosen(const DenseTrajectories& all, const torch::Tensor& rows) {
  std::vector<int64_t> recorded;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const int64_t row = rows[i].item<int64_t>();
    if (row < all.count()) recorded.push_back(row);
  }
  return DenseTrajectories(all.of(recorded));
}

}  // namespace

IntactPairs leave_out_broken(const Pairs& pairs, const std::string& what) {
  const torch::Tensor good = torch::isfinite(pairs.x1).flatten(1).all(1).cpu();
  if (good.all().item<bool>()) return {pairs, {}};
  const torch::Tensor rows = good.nonzero().flatten();
  const torch::Tensor broken = good.logical_not().nonzero().flatten();
  if (2 * rows.size(0) < pairs.count()) {
    throw Error(ErrorKind::diverged,
                fmt::format("the model's own samples are not finite for {} of {} {} pairs, the "
                            "first of them pair {}; loosen the tolerance or check the model for "
                            "NaN",
                            broken.size(0), pairs.count(), what, broken[0].item<int64_t>()));
  }
  IntactPairs sound;
  sound.left_out.assign(broken.data_ptr<int64_t>(), broken.data_ptr<int64_t>() + broken.numel());
  sound.pairs.x0 = pairs.x0.index_select(0, rows.to(pairs.x0.device()));
  sound.pairs.x1 = pairs.x1.index_select(0, rows.to(pairs.x1.device()));
  sound.pairs.conditions = select(pairs.conditions, rows);
  if (pairs.evaluations.defined()) {
    sound.pairs.evaluations = pairs.evaluations.index_select(0, rows);
  }
  if (pairs.trajectories) {
    sound.pairs.trajectories =
        std::make_shared<DenseTrajectories>(chosen(*pairs.trajectories, rows));
  }
  return sound;
}

}  // namespace bespoke
