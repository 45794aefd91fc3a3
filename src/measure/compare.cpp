#include "bespoke/measure/compare.h"

#include <torch/torch.h>

#include <chrono>
#include <limits>

#include "bespoke/core/batches.h"
#include "bespoke/core/error.h"
#include "bespoke/core/psnr.h"
#include "bespoke/model/fields.h"
#include "bespoke/solver/sampler.h"

namespace bespoke {

namespace {

// What one solver did on all samples so far.
struct Record {
  std::vector<double> errors;  // mean squared, of each sample
  double seconds = 0;
  bool diverged = false;
};

double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

// One batch of noise, with its truth.
struct Round {
  const Field& field;
  torch::Tensor noise;
  Conditions conditions;
  int64_t first_sample;
  torch::Tensor expected;  // decoded, where there is a decoder
};

torch::Tensor decoded(const CompareOptions& options, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  return options.decode ? options.decode(x) : x;
}

void run_solver(const NsSolver& solver, const Round& round, const CompareOptions& options,
                Record& record) {
  if (record.diverged) return;
  try {
    const auto begun = std::chrono::steady_clock::now();
    const torch::Tensor x =
        sample(solver, round.field, round.noise, round.conditions, nullptr, round.first_sample);
    x.flatten().slice(0, 0, 1).cpu();  // a device works on its own until it is asked
    record.seconds += seconds_since(begun);
    const auto errors = mean_squared_errors(decoded(options, x), round.expected);
    record.errors.insert(record.errors.end(), errors.begin(), errors.end());
  } catch (const Error& error) {
    // One solver's failure is a result about that solver, not about the others.
    if (error.kind() != ErrorKind::diverged) throw;
    record.diverged = true;
  }
}

ComparisonRow summarise(const Contender& contender, const Record& record,
                        const std::vector<double>& powers, double peak) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  ComparisonRow row{contender.name, contender.solver.nfe(), kNan, kNan, kNan, kNan, kNan, kNan};
  if (record.diverged) return row;
  row.psnr = mean_psnr(record.errors, peak);
  row.snr = mean_snr(record.errors, powers);
  row.mse_low = quantile(record.errors, 0.05);
  row.mse_median = quantile(record.errors, 0.5);
  row.mse_high = quantile(record.errors, 0.95);
  row.seconds = record.seconds / static_cast<double>(record.errors.size());
  return row;
}

}  // namespace

Comparison compare(const ModelPtr& model, const std::vector<Contender>& contenders,
                   const torch::Tensor& x0, const Conditions& conditions,
                   const CompareOptions& options) {
  const VelocityField field(model);
  const int64_t count = x0.size(0);
  std::vector<Record> records(contenders.size());
  std::vector<double> powers;
  double evaluations = 0;
  const auto work = [&](int64_t begin, int64_t end, const auto& report) {
    // The reference counts as one unit of progress, every solver as another.
    const double units = static_cast<double>(contenders.size() + 1);
    Round round{field, x0.slice(0, begin, end), slice(conditions, begin, end), begin, {}};
    ReferenceOptions reference_options;
    reference_options.tolerances = options.tolerances;
    reference_options.on_progress = [&](double done) { report(done / units); };
    reference_options.first_sample = begin;
    const auto truth = reference(model, round.noise, round.conditions, reference_options);
    round.expected = decoded(options, truth.x);
    evaluations += truth.evaluations.sum().item<double>();
    const auto batch_powers =
        mean_squared_errors(round.expected, torch::zeros_like(round.expected));
    powers.insert(powers.end(), batch_powers.begin(), batch_powers.end());
    for (size_t k = 0; k < contenders.size(); ++k) {
      run_solver(contenders[k].solver, round, options, records[k]);
      report(static_cast<double>(k + 2) / units);
    }
  };
  for_each_batch(count, options.batch, options.on_progress, work);

  Comparison result{{}, evaluations / static_cast<double>(count)};
  for (size_t k = 0; k < contenders.size(); ++k) {
    result.rows.push_back(summarise(contenders[k], records[k], powers, options.peak));
  }
  return result;
}

}  // namespace bespoke
