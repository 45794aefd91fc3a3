#include "bespoke/measure/compare.h"

#include <torch/torch.h>

#include <limits>

#include "bespoke/core/batches.h"
#include "bespoke/core/error.h"
#include "bespoke/core/psnr.h"
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
  const auto decode = [&](const torch::Tensor& x) {
    const torch::NoGradGuard no_grad;
    return options.decode ? options.decode(x) : x;
  };
  const auto work = [&](int64_t begin, int64_t end, const auto& report) {
    const auto noise = x0.slice(0, begin, end);
    const auto batch_conditions = slice(conditions, begin, end);
    // The reference counts as one unit of progress, every solver as another.
    const double units = static_cast<double>(contenders.size() + 1);
    ReferenceOptions reference_options;
    reference_options.tolerances = options.tolerances;
    reference_options.on_progress = [&](double done) { report(done / units); };
    reference_options.first_sample = begin;
    const auto truth = reference(model, noise, batch_conditions, reference_options);
    const auto expected = decode(truth.x);
    evaluations += truth.evaluations.sum().item<double>();
    for (size_t k = 0; k < contenders.size(); ++k) {
      const NsSolver& solver = contenders[k].solver;
      try {
        const auto x = sample(solver, field, noise, batch_conditions, nullptr, begin);
        sums[k] += mean_psnr(decode(x), expected, options.peak) * static_cast<double>(end - begin);
      } catch (const Error& error) {
        // One solver's failure is a result about that solver, not about the others.
        if (error.kind() != ErrorKind::diverged) throw;
        sums[k] = std::numeric_limits<double>::quiet_NaN();
      }
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
