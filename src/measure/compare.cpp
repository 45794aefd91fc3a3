#include "bespoke/measure/compare.h"

#include <torch/torch.h>

#include "bespoke/core/batches.h"
#include "bespoke/measure/psnr.h"
#include "bespoke/model/fields.h"
#include "bespoke/solver/sampler.h"

namespace bespoke {

Comparison compare(const ModelPtr& model, const std::vector<Contender>& contenders,
                   const torch::Tensor& x0, const Conditions& conditions,
                   const CompareOptions& options) {
  const VelocityField field(model);
  const int64_t count = x0.size(0);
  std::vector<double> sums(contenders.size(), 0);
  double evaluations = 0;
  const auto work = [&](int64_t begin, int64_t end, const auto& report) {
    const auto noise = x0.slice(0, begin, end);
    const auto batch_conditions = slice(conditions, begin, end);
    // The reference counts as one unit of progress, every solver as another.
    const double units = static_cast<double>(contenders.size() + 1);
    ReferenceOptions reference_options;
    reference_options.tolerances = options.tolerances;
    reference_options.on_progress = [&](double done) { report(done / units); };
    const auto truth = reference(model, noise, batch_conditions, reference_options);
    evaluations += truth.evaluations.sum().item<double>();
    for (size_t k = 0; k < contenders.size(); ++k) {
      const NsSolver& solver = contenders[k].solver;
      const auto start = starting_scale(solver, *model->schedule()) * noise;
      const auto x = sample(solver, field, start, batch_conditions);
      sums[k] += mean_psnr(x, truth.x) * static_cast<double>(end - begin);
      report(static_cast<double>(k + 2) / units);
    }
  };
  for_each_batch(count, options.batch, options.on_progress, work);

  Comparison result{{}, evaluations / static_cast<double>(count)};
  for (size_t k = 0; k < contenders.size(); ++k) {
    result.rows.push_back(
        {contenders[k].name, contenders[k].solver.nfe(), sums[k] / static_cast<double>(count)});
  }
  return result;
}

}  // namespace bespoke
