#include "bespoke/measure/compare.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "bespoke/base/batches.h"
#include "bespoke/base/clock.h"
#include "bespoke/base/error.h"
#include "bespoke/base/packing.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/errors.h"
#include "bespoke/tensor/tensor_bytes.h"

namespace bespoke {

using namespace detail;

namespace {

// A solver's samples, or the reference's, as they are looked at.
struct View {
  torch::Tensor measured;  // what errors are of
  torch::Tensor shown;     // what features are of and what is kept: decoded, where it can be
};

// Otherwise they are of the model's samples, be they latents or not.
bool measures_decoded(const CompareOptions& options) {
  return options.decode && options.errors_of_decoded;
}

View view_of(const torch::Tensor& x, const CompareOptions& options, int64_t first) {
  const bool errors_decoded = measures_decoded(options);
  const bool looked_at = errors_decoded || options.features || options.jury ||
                         options.snr_of_both || options.joint_flux || first < options.keep;
  // Decoding may cost as much as sampling: only where something looks at it.
  if (!options.decode || !looked_at) return {x, x};
  const torch::NoGradGuard no_grad;
  const torch::Tensor decoded = options.decode(x, first);
  return {errors_decoded ? decoded : x, decoded};
}

// The mean squared difference of each sample, of what was filled in where there is such.
std::vector<double> filled_errors(const torch::Tensor& x, const torch::Tensor& expected,
                                  const torch::Tensor& filled, int64_t first) {
  if (!filled.defined()) return mean_squared_errors(x, expected);
  const torch::Tensor mask = filled.slice(0, first, first + x.size(0)).to(x.device());
  const torch::Tensor whole = mask.expand_as(x).flatten(1).to(torch::kCPU, torch::kDouble);
  const torch::Tensor parts = whole.mean(1).contiguous();
  auto errors = mean_squared_errors(x * mask, expected * mask);
  for (size_t i = 0; i < errors.size(); ++i) errors[i] /= parts.data_ptr<double>()[i];
  return errors;
}

// Errors in both spaces of a latent model, or what they are relative to.
struct BothErrors {
  std::vector<double> latent, decoded;

  void add(const torch::Tensor& x, const torch::Tensor& expected, const View& shown,
           const torch::Tensor& expected_shown, const CompareOptions& options, int64_t first) {
    if (!options.snr_of_both) return;
    append(latent, filled_errors(x, expected, options.filled, first));
    append(decoded, filled_errors(shown.shown, expected_shown, options.filled_decoded, first));
  }

 private:
  static void append(std::vector<double>& all, const std::vector<double>& some) {
    all.insert(all.end(), some.begin(), some.end());
  }
};

// A mean over samples that come batch by batch; none of none.
class RunningMean {
 public:
  void add(const std::vector<double>& values) {
    for (const double value : values) sum_ += value;
    count_ += static_cast<double>(values.size());
  }
  void add(Unpacker& unpacker) {
    sum_ += unpacker.number();
    count_ += unpacker.number();
  }
  void pack(Packer& packer) const { packer.add(sum_).add(count_); }
  std::optional<double> value() const {
    return count_ > 0 ? std::optional<double>(sum_ / count_) : std::nullopt;
  }

 private:
  double sum_ = 0, count_ = 0;
};

std::vector<double> numbers_of(const torch::Tensor& values) {
  const torch::Tensor wide = values.to(torch::kCPU, torch::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

// The first samples, as they come batch by batch.
class Keeper {
 public:
  explicit Keeper(int64_t most) : most_(most) {}
  void add(const torch::Tensor& samples) {
    const int64_t missing = std::min(most_ - count_, samples.size(0));
    if (missing <= 0) return;
    parts_.push_back(samples.slice(0, 0, missing).to(torch::kCPU, torch::kFloat).clone());
    count_ += missing;
  }
  torch::Tensor samples() const { return parts_.empty() ? torch::Tensor() : torch::cat(parts_); }
  void add(Unpacker& unpacker) {
    for (const torch::Tensor& part : tensors_of(unpacker.text())) add(part);
  }
  void pack(Packer& packer) const { packer.add(tensor_bytes(parts_)); }

 private:
  int64_t most_, count_ = 0;
  std::vector<torch::Tensor> parts_;
};

// How many samples show what their prompts say, of those that could be judged.
class Agreement {
 public:
  void add(const std::vector<std::optional<bool>>& verdicts) {
    for (const auto& verdict : verdicts) {
      judged_ += verdict.has_value() ? 1 : 0;
      agreeing_ += verdict.value_or(false) ? 1 : 0;
    }
  }
  void add(Unpacker& unpacker) {
    judged_ += unpacker.integer();
    agreeing_ += unpacker.integer();
  }
  void pack(Packer& packer) const { packer.add(judged_).add(agreeing_); }
  std::optional<double> part() const {
    if (judged_ == 0) return std::nullopt;
    return static_cast<double>(agreeing_) / static_cast<double>(judged_);
  }

 private:
  int64_t judged_ = 0, agreeing_ = 0;
};

// What one solver did on all samples so far.
struct Record {
  explicit Record(int64_t keep) : keeper(keep) {}
  std::vector<double> errors;         // mean squared, of each sample
  std::vector<double> latent_errors;  // likewise, where the errors are of what is decoded
  BothErrors both;
  RunningMean flux;
  double seconds = 0;
  bool diverged = false;
  bool features_failed = false;
  FeatureAccumulator features;
  Agreement agreement;
  Keeper keeper;
};

// What the reference is known by, over all samples.
struct Truth {
  explicit Truth(int64_t keep) : keeper(keep) {}
  std::vector<double> powers;
  BothErrors both;  // powers of both
  RunningMean flux, evaluations;
  FeatureAccumulator halves[2];  // features of the first half of the samples, and of the others
  Agreement agreement;
  Keeper keeper;

  FeatureStatistics statistics() const {
    FeatureAccumulator both;
    for (const FeatureAccumulator& half : halves) both.add(half.tensors());
    return both.statistics();
  }
};

void append(std::vector<double>& numbers, const std::vector<double>& more) {
  numbers.insert(numbers.end(), more.begin(), more.end());
}

// What a member of a team measured, for the others. Shares lie in the order of ranks, so what they
// list is put one after the other.
std::string packed(const Record& record) {
  Packer packer;
  packer.add(tensor_bytes(record.features.tensors())).add(record.errors).add(record.latent_errors);
  packer.add(record.both.latent).add(record.both.decoded).add(record.seconds);
  packer.add(int64_t{record.diverged}).add(int64_t{record.features_failed});
  record.flux.pack(packer);
  record.agreement.pack(packer);
  record.keeper.pack(packer);
  return packer.bytes();
}

void add(const std::string& bytes, Record& record) {
  Unpacker unpacker(bytes);
  record.features.add(tensors_of(unpacker.text()));
  for (auto* list :
       {&record.errors, &record.latent_errors, &record.both.latent, &record.both.decoded}) {
    append(*list, unpacker.numbers());
  }
  record.seconds += unpacker.number();
  record.diverged = unpacker.integer() != 0 || record.diverged;
  record.features_failed = unpacker.integer() != 0 || record.features_failed;
  record.flux.add(unpacker);
  record.agreement.add(unpacker);
  record.keeper.add(unpacker);
}

std::string packed(const Truth& truth) {
  Packer packer;
  for (const FeatureAccumulator& half : truth.halves) packer.add(tensor_bytes(half.tensors()));
  packer.add(truth.powers);
  packer.add(truth.both.latent).add(truth.both.decoded);
  truth.flux.pack(packer);
  truth.evaluations.pack(packer);
  truth.agreement.pack(packer);
  truth.keeper.pack(packer);
  return packer.bytes();
}

void add(const std::string& bytes, Truth& truth) {
  Unpacker unpacker(bytes);
  for (FeatureAccumulator& half : truth.halves) half.add(tensors_of(unpacker.text()));
  for (auto* list : {&truth.powers, &truth.both.latent, &truth.both.decoded}) {
    append(*list, unpacker.numbers());
  }
  truth.flux.add(unpacker);
  truth.evaluations.add(unpacker);
  truth.agreement.add(unpacker);
  truth.keeper.add(unpacker);
}

// One batch of noise, with its truth.
struct Round {
  const Field& field;
  torch::Tensor noise;
  Conditions conditions;
  int64_t first_sample;
  torch::Tensor exact;  // the reference's samples
  View expected;        // what errors are measured from
};

std::vector<std::optional<bool>> verdicts_on(const torch::Tensor& shown, int64_t first,
                                             const CompareOptions& options) {
  return options.jury->verdicts(options.judged ? options.judged(shown, first) : shown, first);
}

torch::Tensor measured_mask(const CompareOptions& options) {
  return measures_decoded(options) ? options.filled_decoded : options.filled;
}

// Runs work; whether it ended without anything becoming infinite.
template <class Work>
bool stays_finite(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    // One solver's failure is a result about that solver, not about the others.
    if (error.kind() != ErrorKind::diverged) throw;
    return false;
  }
}

void run_solver(const NsSolver& solver, const Round& round, const CompareOptions& options,
                Record& record) {
  if (record.diverged) return;
  torch::Tensor x;
  record.diverged = !stays_finite([&] {
    const auto begun = std::chrono::steady_clock::now();
    x = sample(solver, round.field, round.noise, round.conditions, nullptr, round.first_sample);
    x.flatten().slice(0, 0, 1).cpu();  // a device works on its own until it is asked
    record.seconds += seconds_since(begun);
  });
  if (record.diverged) return;
  const int64_t first = round.first_sample;
  const View view = view_of(x, options, first);
  const auto errors =
      filled_errors(view.measured, round.expected.measured, measured_mask(options), first);
  record.errors.insert(record.errors.end(), errors.begin(), errors.end());
  if (measures_decoded(options)) {
    const auto latent = filled_errors(x, round.exact, options.filled, first);
    record.latent_errors.insert(record.latent_errors.end(), latent.begin(), latent.end());
  }
  record.both.add(x, round.exact, view, round.expected.shown, options, first);
  if (options.joint_flux) record.flux.add(options.joint_flux(view.shown, first));
  record.keeper.add(view.shown);
  // Samples so far off that a classifier makes no numbers of them show nothing.
  if (options.jury &&
      !stays_finite([&] { record.agreement.add(verdicts_on(view.shown, first, options)); })) {
    record.agreement.add(std::vector<std::optional<bool>>(errors.size(), false));
  }
  if (!options.features || record.features_failed) return;
  record.features_failed =
      !stays_finite([&] { record.features.add(options.features(view.shown)); });
}

// Each half of the samples apart, for the distance between them.
void add_features(const torch::Tensor& features, int64_t first, int64_t count, Truth& truth) {
  const int64_t cut = std::clamp<int64_t>(count / 2 - first, 0, features.size(0));
  truth.halves[0].add(features.slice(0, 0, cut));
  truth.halves[1].add(features.slice(0, cut));
}

// The truth of a batch of `count` samples in all.
View expected_of(const torch::Tensor& samples, int64_t first, int64_t count,
                 const CompareOptions& options, Truth& truth) {
  const View view = view_of(samples, options, first);
  const auto powers =
      filled_errors(view.measured, torch::zeros_like(view.measured), measured_mask(options), first);
  truth.powers.insert(truth.powers.end(), powers.begin(), powers.end());
  truth.both.add(samples, torch::zeros_like(samples), view, torch::zeros_like(view.shown), options,
                 first);
  if (options.joint_flux) truth.flux.add(options.joint_flux(view.shown, first));
  truth.keeper.add(view.shown);
  if (options.jury) truth.agreement.add(verdicts_on(view.shown, first, options));
  if (options.features) {
    add_features(features_of_sound(options.features, view.shown), first, count, truth);
  }
  return view;
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

// Of the mean of the errors' logarithms, in decibels, over `powers` where there are any; NaN where
// a sample is exact, and there is no mean that it could be the error of.
double standard_error_of(const std::vector<double>& errors,
                         const std::vector<double>& powers = {}) {
  std::vector<double> logs;
  for (size_t i = 0; i < errors.size(); ++i) {
    logs.push_back(std::log(errors[i] / (powers.empty() ? 1 : powers[i])));
  }
  return psnr_error(logs);
}

// Which bin each sample's own weight is in.
std::vector<size_t> bins_of_samples(const std::vector<GuidanceRange>& bins,
                                    const Conditions& conditions) {
  const torch::Tensor weights =
      conditions.at(kGuidanceCondition).to(torch::kCPU, torch::kDouble).contiguous();
  std::vector<size_t> places;
  for (int64_t i = 0; i < weights.numel(); ++i) {
    size_t place = 0;
    while (place + 1 < bins.size() && weights.data_ptr<double>()[i] >= bins[place].to) ++place;
    places.push_back(place);
  }
  return places;
}

void add_psnr_by_guidance(const std::vector<Record>& records, const Conditions& conditions,
                          const CompareOptions& options, Comparison& result) {
  result.guidance_bins = options.guidance.range->bins();
  const auto places = bins_of_samples(result.guidance_bins, conditions);
  for (size_t k = 0; k < records.size(); ++k) {
    std::vector<std::vector<double>> errors(result.guidance_bins.size());
    for (size_t i = 0; !records[k].diverged && i < places.size(); ++i) {
      errors[places[i]].push_back(records[k].errors[i]);
    }
    for (const auto& some : errors) {
      constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
      const bool none = some.empty();
      result.rows[k].psnr_by_guidance.push_back(none ? kNan : mean_psnr(some, options.peak));
      result.rows[k].psnr_by_guidance_errors.push_back(none ? kNan : standard_error_of(some));
    }
  }
}

ComparisonRow summarise(const NamedSolver& contender, const Record& record, const Truth& truth,
                        const CompareOptions& options) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  ComparisonRow row;
  row.name = contender.name;
  row.nfe = contender.solver.nfe();
  row.model_calls = count_model_calls(contender.solver, options.guidance);
  row.guides_itself = contender.solver.guides_itself();
  row.diverged = record.diverged;
  row.psnr = row.psnr_error = row.snr = row.mse_low = row.mse_median = row.mse_high = row.seconds =
      kNan;
  if (record.diverged) return row;
  row.psnr = mean_psnr(record.errors, options.peak);
  row.psnr_error = standard_error_of(record.errors);
  if (measures_decoded(options)) {
    row.latent_psnr = mean_psnr(record.latent_errors, options.latent_peak);
    row.latent_psnr_error = standard_error_of(record.latent_errors);
  }
  row.snr = mean_snr(record.errors, truth.powers);
  row.snr_error = standard_error_of(record.errors, truth.powers);
  if (options.snr_of_both) {
    row.latent_snr = mean_snr(record.both.latent, truth.both.latent);
    row.decoded_snr = mean_snr(record.both.decoded, truth.both.decoded);
    row.latent_snr_error = standard_error_of(record.both.latent, truth.both.latent);
    row.decoded_snr_error = standard_error_of(record.both.decoded, truth.both.decoded);
  }
  row.joint_flux = record.flux.value();
  row.mse_low = quantile(record.errors, 0.05);
  row.mse_median = quantile(record.errors, 0.5);
  row.mse_high = quantile(record.errors, 0.95);
  row.seconds = record.seconds / static_cast<double>(record.errors.size());
  row.agreement = record.agreement.part();
  row.samples = record.keeper.samples();
  return row;
}

void add_distances(const std::vector<Record>& records, const Truth& truth,
                   const CompareOptions& options, Comparison& result) {
  const FeatureStatistics reference = truth.statistics();
  result.frechet_noise = sampling_noise(truth.halves[0], truth.halves[1]);
  const FrechetDistance from_reference(reference);
  std::optional<FrechetDistance> from_real;
  if (options.real_statistics) {
    from_real.emplace(*options.real_statistics);
    result.reference_frechet_to_real = from_real->to(reference);
  }
  for (size_t k = 0; k < records.size(); ++k) {
    if (records[k].diverged || records[k].features_failed) continue;
    // With thousands of features this takes seconds each, and a caller may want to stop.
    if (options.on_progress) options.on_progress(1);
    const FeatureStatistics statistics = records[k].features.statistics();
    result.rows[k].frechet_to_reference = from_reference.to(statistics);
    if (from_real) result.rows[k].frechet_to_real = from_real->to(statistics);
  }
}

// What was measured of the reference and of every solver.
struct Measured {
  Truth truth;
  std::vector<Record> records;

  Measured(size_t contenders, int64_t keep) : truth(keep), records(contenders, Record(keep)) {}
};

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

// By one member, on its share of the samples.
Measured measure_share(const Share& share, const ModelPtr& model,
                       const std::vector<NamedSolver>& contenders, const ComparedSamples& samples,
                       const CompareOptions& options) {
  const VelocityField field(model);
  Measured found(contenders.size(), options.keep);
  // The reference, where it is computed, counts as one unit of progress, every solver as another.
  const double before = options.reference ? 0 : 1;
  const double units = before + static_cast<double>(contenders.size());
  const auto work = [&](int64_t first, int64_t last, const auto& report) {
    const int64_t begin = share.begin + first, end = share.begin + last;
    const torch::Tensor noise = samples.noise(begin, end);
    const Conditions conditions = slice(samples.conditions, begin, end);
    const ReferenceResult known = reference_of(model, noise, conditions, begin, options,
                                               [&](double done) { report(before * done / units); });
    found.truth.evaluations.add(numbers_of(known.evaluations));
    const torch::Tensor exact = known.x.to(noise.device(), noise.scalar_type());
    const View expected = expected_of(exact, begin, samples.count, options, found.truth);
    const Round round{field, noise, conditions, begin, exact, expected};
    for (size_t k = 0; k < contenders.size(); ++k) {
      run_solver(contenders[k].solver, round, options, found.records[k]);
      report((before + static_cast<double>(k + 1)) / units);
    }
  };
  for_each_batch(share.count(), options.batch, options.on_progress, work);
  return found;
}

// The same by all members, who then know what each has measured.
Measured exchanged(const Measured& mine, Team& team, int64_t keep) {
  Measured all(mine.records.size(), keep);
  std::vector<std::string> messages = team.exchange(packed(mine.truth));
  for (const auto& bytes : messages) add(bytes, all.truth);
  for (size_t k = 0; k < mine.records.size(); ++k) {
    messages = team.exchange(packed(mine.records[k]));
    for (const auto& bytes : messages) add(bytes, all.records[k]);
  }
  return all;
}

}  // namespace

Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const ComparedSamples& samples, const CompareOptions& options) {
  Team& team = *options.team;
  Measured found(contenders.size(), options.keep);
  exchange_work(team, [&] {
    found = measure_share(share_of(samples.count, team), model, contenders, samples, options);
    return "";
  });
  if (team.size() > 1) found = exchanged(found, team, options.keep);
  const Truth& truth = found.truth;
  const std::vector<Record>& records = found.records;

  Comparison result;
  result.reference_evaluations = truth.evaluations.value().value_or(0);
  result.reference_agreement = truth.agreement.part();
  result.reference_joint_flux = truth.flux.value();
  result.reference_samples = truth.keeper.samples();
  for (size_t k = 0; k < contenders.size(); ++k) {
    result.rows.push_back(summarise(contenders[k], records[k], truth, options));
  }
  if (options.features) add_distances(records, truth, options, result);
  if (options.guidance.range) {
    add_psnr_by_guidance(records, samples.conditions, options, result);
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
