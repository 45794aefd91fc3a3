#include "bespoke/measure/compare.h"

#include <torch/torch.h>

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
  for (int64_t begin = 0; begin < count; begin += options.batch) {
    const int64_t end = std::min(count, begin + options.batch);
    const auto noise = x0.slice(0, begin, end);
    const auto batch_conditions = slice(conditions, begin, end);
    // The reference counts as one unit of progress, every solver as another.
    const double units = static_cast<double>(contenders.size() + 1);
    const auto report = [&](double done) {
      const double batch_share = static_cast<double>(end - begin) / static_cast<double>(count);
      if (options.on_progress) {
        options.on_progress(static_cast<double>(begin) / static_cast<double>(count) +
                            batch_share * done / units);
      }
    };
    ReferenceOptions reference_options;
    reference_options.tolerances = options.tolerances;
    reference_options.on_progress = report;
    const auto truth = reference(model, noise, batch_conditions, reference_options);
    evaluations += truth.evaluations.sum().item<double>();
    for (size_t k = 0; k < contenders.size(); ++k) {
      const auto x = sample(contenders[k].solver, field, noise, batch_conditions);
      sums[k] += mean_psnr(x, truth.x) * static_cast<double>(end - begin);
      report(static_cast<double>(k + 2));
    }
  }
  Comparison result{{}, evaluations / static_cast<double>(count)};
  for (size_t k = 0; k < contenders.size(); ++k) {
    result.rows.push_back(
        {contenders[k].name, contenders[k].solver.nfe(), sums[k] / static_cast<double>(count)});
  }
  return result;
}

}  // namespace bespoke
