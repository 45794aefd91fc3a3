#include "bespoke/measure/compare.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/clock.h"
#include "bespoke/base/packing.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/tensor_bytes.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

// What is known of the samples of one solver, or of the reference.
struct Record {
  std::vector<Tally> tallies;       // of each measure
  std::vector<double> evaluations;  // of each sample, of the reference
  double seconds = 0;
  bool diverged = false;
  std::vector<torch::Tensor> kept;  // of the first samples, float32 on the CPU

  // Of the samples after these.
  void append(const Record& next) {
    tallies.resize(std::max(tallies.size(), next.tallies.size()));
    for (size_t i = 0; i < next.tallies.size(); ++i) tallies[i].append(next.tallies[i]);
    evaluations.insert(evaluations.end(), next.evaluations.begin(), next.evaluations.end());
    seconds += next.seconds;
    diverged = diverged || next.diverged;
    kept.insert(kept.end(), next.kept.begin(), next.kept.end());
  }
};

// What a member of a team measured, for the others. Shares lie in the order of ranks, so records of
// them are appended in that order.
std::string packed(const Record& record) {
  Packer packer;
  packer.add(record.evaluations).add(record.seconds).add(int64_t{record.diverged});
  packer.add(tensor_bytes(record.kept)).add(static_cast<int64_t>(record.tallies.size()));
  for (const Tally& tally : record.tallies) {
    packer.add(int64_t{tally.failed}).add(static_cast<int64_t>(tally.numbers.size()));
    for (const auto& list : tally.numbers) packer.add(list);
    packer.add(static_cast<int64_t>(tally.features.size()));
    for (const auto& features : tally.features) packer.add(tensor_bytes(features.tensors()));
  }
  return packer.bytes();
}

Tally unpacked_tally(Unpacker& unpacker) {
  Tally tally;
  tally.failed = unpacker.integer() != 0;
  tally.numbers.resize(static_cast<size_t>(unpacker.integer()));
  for (auto& list : tally.numbers) list = unpacker.numbers();
  tally.features.resize(static_cast<size_t>(unpacker.integer()));
  for (auto& features : tally.features) features.add(tensors_of(unpacker.text()));
  return tally;
}

Record unpacked_record(const std::string& bytes) {
  Unpacker unpacker(bytes);
  Record record;
  record.evaluations = unpacker.numbers();
  record.seconds = unpacker.number();
  record.diverged = unpacker.integer() != 0;
  record.kept = tensors_of(unpacker.text());
  const int64_t tallies = unpacker.integer();
  for (int64_t i = 0; i < tallies; ++i) record.tallies.push_back(unpacked_tally(unpacker));
  return record;
}

// One batch of noise, with its truth.
struct Round {
  const Field& field;
  torch::Tensor noise;
  Conditions conditions;
  MeasuredSamples exact;
};

std::vector<double> numbers_of(const torch::Tensor& values) {
  const torch::Tensor wide = values.to(torch::kCPU, torch::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

// Those of the samples that are among the first `keep`.
std::vector<torch::Tensor> kept_of(const MeasuredSamples& samples, int64_t keep) {
  const int64_t count = std::min(keep - samples.first(), samples.drawn().size(0));
  if (count <= 0) return {};
  return {samples.shown().slice(0, 0, count).to(torch::kCPU, torch::kFloat).clone()};
}

Record record_of(const NsSolver& solver, const Round& round, const CompareOptions& options) {
  const int64_t first = round.exact.first();
  Record record;
  torch::Tensor x;
  record.diverged = !stays_finite([&] {
    const auto begun = std::chrono::steady_clock::now();
    x = sample(solver, round.field, round.noise, round.conditions, nullptr, first);
    x.flatten().slice(0, 0, 1).cpu();  // a device works on its own until it is asked
    record.seconds = seconds_since(begun);
  });
  if (record.diverged) return record;
  const MeasuredSamples samples(x, first, round.exact.total(), options.decode);
  for (const auto& measure : options.measures) {
    record.tallies.push_back(measure->tally(samples, round.exact));
  }
  record.kept = kept_of(samples, options.keep);
  return record;
}

Record record_of_reference(const MeasuredSamples& exact, const torch::Tensor& evaluations,
                           const CompareOptions& options) {
  Record record;
  record.evaluations = numbers_of(evaluations);
  for (const auto& measure : options.measures) {
    record.tallies.push_back(measure->reference_tally(exact));
  }
  record.kept = kept_of(exact, options.keep);
  return record;
}

// Network calls a sample: guidance makes a second one wherever its weight is not zero, or where the
// solver says.
int count_model_calls(const NsSolver& solver, const GuidanceWeight& guidance) {
  if (solver.guides_itself()) return solver.shape().calls();
  int calls = 0;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    calls += guidance.at(solver.times[i]).value != 0 ? 2 : 1;
  }
  return calls;
}

torch::Tensor joined(const std::vector<torch::Tensor>& kept) {
  return kept.empty() ? torch::Tensor() : torch::cat(kept);
}

ComparisonRow row_of(const NamedSolver& contender, const Record& record, int64_t count,
                     const std::vector<Measure::FiguresOf>& figures_of,
                     const GuidanceWeight& guidance) {
  ComparisonRow row;
  row.name = contender.name;
  row.nfe = contender.solver.nfe();
  row.model_calls = count_model_calls(contender.solver, guidance);
  row.guides_itself = contender.solver.guides_itself();
  row.diverged = record.diverged;
  if (record.diverged) return row;
  row.seconds = record.seconds / static_cast<double>(count);
  for (size_t i = 0; i < figures_of.size(); ++i)
    row.figures.merge(figures_of[i](record.tallies[i]));
  row.samples = joined(record.kept);
  return row;
}

ComparisonRow reference_row(const Record& reference, const std::vector<MeasurePtr>& measures) {
  ComparisonRow row;
  row.name = "reference";
  row.nfe = static_cast<int>(std::lround(mean_of(reference.evaluations)));
  for (size_t i = 0; i < measures.size(); ++i) {
    row.figures.merge(measures[i]->reference_figures(reference.tallies[i]));
  }
  row.samples = joined(reference.kept);
  return row;
}

// The model's own samples of a batch, known or computed.
ReferenceResult reference_of(const ModelPtr& model, const torch::Tensor& noise,
                             const Conditions& conditions, int64_t first,
                             const CompareOptions& options,
                             const std::function<void(double)>& on_progress) {
  if (options.reference) return options.reference(first, first + noise.size(0));
  Batching batching;
  batching.batch = options.batch;
  batching.first_sample = first;
  batching.on_progress = on_progress;
  return reference_in_batches(model, noise, conditions, options.tolerances, batching);
}

// What was measured of the reference, and then of every solver.
using Records = std::vector<Record>;

// By one member, on its share of the samples.
Records measure_share(const Share& share, const ModelPtr& model,
                      const std::vector<NamedSolver>& contenders, const ComparedSamples& samples,
                      const CompareOptions& options) {
  const VelocityField field(model);
  Records records(1 + contenders.size());
  for (Record& record : records) record.tallies.resize(options.measures.size());
  // The reference, where it is computed, counts as one unit of progress, every solver as another.
  const double before = options.reference ? 0 : 1;
  const double units = before + static_cast<double>(contenders.size());
  const auto work = [&](int64_t first, int64_t last, const auto& report) {
    const int64_t begin = share.begin + first, end = share.begin + last;
    const torch::Tensor noise = samples.noise(begin, end);
    const Conditions conditions = slice(samples.conditions, begin, end);
    const ReferenceResult known = reference_of(model, noise, conditions, begin, options,
                                               [&](double done) { report(before * done / units); });
    const torch::Tensor exact = known.x.to(noise.device(), noise.scalar_type());
    const Round round{field, noise, conditions,
                      MeasuredSamples(exact, begin, samples.count, options.decode)};
    records[0].append(record_of_reference(round.exact, known.evaluations, options));
    for (size_t k = 0; k < contenders.size(); ++k) {
      Record& record = records[1 + k];
      if (!record.diverged) record.append(record_of(contenders[k].solver, round, options));
      report((before + static_cast<double>(k + 1)) / units);
    }
  };
  for_each_batch(share.count(), options.batch, options.on_progress, work);
  return records;
}

// The same by all members, who then know what each has measured.
Records exchanged(const Records& mine, Team& team) {
  Records all(mine.size());
  for (size_t k = 0; k < mine.size(); ++k) {
    for (const auto& bytes : team.exchange(packed(mine[k]))) all[k].append(unpacked_record(bytes));
  }
  return all;
}

}  // namespace

std::optional<double> ComparisonRow::figure(const std::string& name) const {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional<double>(found->second);
}

double ComparisonRow::psnr() const {
  return figure("psnr_db").value_or(std::numeric_limits<double>::quiet_NaN());
}

double ComparisonRow::psnr_error() const {
  return figure("psnr_error_db").value_or(std::numeric_limits<double>::quiet_NaN());
}

Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const ComparedSamples& samples, const CompareOptions& options) {
  Team& team = *options.team;
  Records records;
  exchange_work(team, [&] {
    records = measure_share(share_of(samples.count, team), model, contenders, samples, options);
    return "";
  });
  if (team.size() > 1) records = exchanged(records, team);

  Comparison result;
  result.reference_evaluations = mean_of(records[0].evaluations);
  result.reference = reference_row(records[0], options.measures);
  std::vector<Measure::FiguresOf> figures_of;
  for (size_t i = 0; i < options.measures.size(); ++i) {
    figures_of.push_back(options.measures[i]->against(records[0].tallies[i]));
    for (auto& column : options.measures[i]->columns(result.reference.figures)) {
      result.columns.push_back(std::move(column));
    }
  }
  for (size_t k = 0; k < contenders.size(); ++k) {
    // With thousands of features this takes seconds each, and a caller may want to stop.
    if (options.on_progress) options.on_progress(1);
    result.rows.push_back(
        row_of(contenders[k], records[1 + k], samples.count, figures_of, options.guidance));
  }
  return result;
}

Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const torch::Tensor& x0, const Conditions& conditions,
                   const CompareOptions& options) {
  const auto noise = [&](int64_t begin, int64_t end) { return x0.slice(0, begin, end); };
  return compare(model, contenders, {x0.size(0), noise, conditions}, options);
}

}  // namespace bespoke
