#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/jobs/compare_job.h"
#include "bespoke/jobs/comparison_report.h"
#include "bespoke/jobs/real_data.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/report/comparison_tables.h"
#include "bespoke/sample/in_batches.h"
#include "catalogue_need.h"
#include "compare_cache.h"
#include "contenders.h"

namespace bespoke {

using namespace detail;

namespace {

// Whether samples show what their prompts say is judged by these; null where none are given.
std::shared_ptr<const Jury> open_jury(const std::vector<std::string>& folders,
                                      const OpenModel& open, const ChosenSamples& chosen) {
  if (folders.empty()) return nullptr;
  if (chosen.prompts.empty()) {
    throw usage_error("--judge is for models that are told what to draw by --prompt or --prompts");
  }
  std::vector<std::string> prompts = chosen.prompts;
  if (open.utterances) {
    const auto& sounds = open.utterances->sounds;
    for (size_t i = 0; i < prompts.size(); ++i) prompts[i] = sounds[i % sounds.size()].said;
  }
  std::vector<Judge> judges;
  for (const auto& folder : folders) judges.emplace_back(folder, open.device);
  return std::make_shared<Jury>(std::move(judges), prompts);
}

// Distances that are mostly chance look like figures.
void warn_of_few_samples(int64_t count, int64_t dimension, const Execution& execution) {
  if (!are_few_samples(count, dimension)) return;
  execution.note(fmt::format(
      "warning: {} samples are few for distances over {} features, which will mostly show chance; "
      "give --count {} or more, or an extractor with fewer features",
      count, dimension, 10 * dimension));
}

OpenFeatures features_for(const CompareJob& job, const OpenModel& open, int64_t count,
                          const Execution& execution) {
  OpenFeatures features = open_features(job.features, open);
  require_enough_samples(count, features.dimension, fmt::format("--count {}", count));
  warn_of_few_samples(count, features.dimension, execution);
  return features;
}

// Gaps say which part of a sample counts, and so do masks of the card.
void set_masks(const PreparedComparison& prepared, MeasureInputs& inputs) {
  if (inputs.gaps) {
    inputs.mask = inputs.gaps->filled();
    inputs.decoded_mask = inputs.gaps->filled_sounds();
    inputs.counted = ", in the filled spans";
    return;
  }
  if (prepared.open.card.error_masks.empty()) return;
  const torch::Tensor mask = error_mask(prepared.open.card, prepared.samples.conditions);
  std::vector<int64_t> sizes = mask.sizes().vec();
  sizes.front() = prepared.samples.count();
  inputs.mask = mask.expand(sizes);
  if (!inputs.decoded) inputs.counted = ", of what the error mask counts";
}

MeasureInputs measure_inputs(const PreparedComparison& prepared) {
  const OpenModel& open = prepared.open;
  const ChosenSamples& samples = prepared.samples;
  MeasureInputs inputs;
  inputs.count = samples.count();
  inputs.decoded = prepared.job.of_decoded;
  inputs.peak = value_peak(open, inputs.decoded);
  inputs.latent_peak = value_peak(open, false);
  inputs.decodes_sounds = open.decoder && open.card.sample_rate > 0;
  if (open.utterances) {
    inputs.gaps = std::make_shared<FilledGaps>(open.utterances, samples.conditions, open.decoder,
                                               open.card.sample_rate, samples.count());
  }
  set_masks(prepared, inputs);
  if (open.guidance.range) {
    inputs.guidance_bins = open.guidance.range->bins();
    inputs.guidance_weights = samples.conditions.at(kGuidanceCondition);
  }
  inputs.jury = open_jury(prepared.job.judges, open, samples);
  return inputs;
}

DecodeSamples decoding(const OpenModel& open, const std::shared_ptr<const FilledGaps>& gaps) {
  if (gaps) return [gaps](const torch::Tensor& x, int64_t first) { return gaps->decode(x, first); };
  if (!open.decoder) return nullptr;
  return [decoder = open.decoder](const torch::Tensor& x, int64_t) { return decoder->decode(x); };
}

CompareOptions compare_options(const PreparedComparison& prepared, const MeasureInputs& inputs,
                               const Execution& execution) {
  CompareOptions options;
  options.batch = execution.batch;
  options.tolerances = {prepared.job.tolerance, prepared.job.tolerance};
  options.guidance = prepared.open.guidance;
  options.decode = prepared.decode;
  options.measures = make_measures(inputs);
  return options;
}

// How many of the samples the search for the catalogue's best looks at.
int64_t searched_count(const PreparedComparison& prepared) {
  return searched_samples(prepared.samples.count());
}

// The model's own samples of the first noise.
ReferenceResult first_of_reference(const ModelComparison& comparison, const Execution& execution) {
  if (comparison.first) return *comparison.first;
  const PreparedComparison& prepared = comparison.prepared;
  const int64_t count = searched_count(prepared);
  const double tolerance = prepared.job.tolerance;
  Batching batching;
  batching.batch = execution.batch;
  return reference_in_batches(prepared.samples.model, prepared.samples.noise(0, count),
                              slice(prepared.samples.conditions, 0, count), {tolerance, tolerance},
                              batching);
}

// What the best of the catalogue needs to come as near as `featured`, of `evaluations` or of
// network calls that would pay for as many, on the first samples.
CatalogueNeed need_of_catalogue(const ModelComparison& comparison, const NsSolver& featured,
                                int evaluations, const Execution& execution) {
  const PreparedComparison& prepared = comparison.prepared;
  const ReferenceResult reference = first_of_reference(comparison, execution);
  MeasureInputs errors = prepared.inputs;
  errors.features = nullptr;
  errors.jury = nullptr;
  errors.gaps = nullptr;
  errors.decodes_sounds = false;
  errors.guidance_bins.clear();
  CompareOptions options = compare_options(prepared, errors, execution);
  options.reference = [reference](int64_t begin, int64_t end) {
    return ReferenceResult{reference.x.slice(0, begin, end),
                           reference.evaluations.slice(0, begin, end)};
  };
  constexpr double kUsualRounds = 12, kNotDone = 0.99;  // there may be more of them
  double rounds = 0;
  options.on_progress = [&](double done) {
    execution.report("what the best of the catalogue needs",
                     std::min(kNotDone, (rounds + done) / kUsualRounds));
  };
  CatalogueSearch search;
  search.solver = featured;
  search.field = prepared.open.field();
  search.data_deviation = reference.x.square().mean().sqrt().item<double>();
  search.samples = searched_count(prepared);
  search.first = evaluations;
  search.most = prepared.job.equal_up_to;
  search.measured = [&](const std::vector<NamedSolver>& solvers, int64_t count) {
    const Comparison found =
        compare(prepared.samples.model, solvers, prepared.samples.noise(0, count),
                slice(prepared.samples.conditions, 0, count), options);
    rounds += 1;
    std::vector<double> psnr;
    for (const auto& row : found.rows) psnr.push_back(row.psnr());
    return psnr;
  };
  return catalogue_need(search);
}

}  // namespace

PreparedComparison prepare_comparison(const CompareJob& job, OpenModel open, TensorCache cache,
                                      const Execution& execution) {
  job.validate();
  check_decoded_space(open, job.of_decoded);
  PreparedComparison prepared;
  prepared.job = job;
  prepared.open = std::move(open);
  // Several processes would have to agree on what is in a cache.
  if (execution.team->size() == 1) prepared.cache = std::move(cache);
  prepared.samples = choose_samples(prepared.open, job.samples);
  prepared.inputs = measure_inputs(prepared);
  prepared.decode = decoding(prepared.open, prepared.inputs.gaps);
  if (!job.features.file.empty()) {
    const OpenFeatures features =
        features_for(job, prepared.open, prepared.samples.count(), execution);
    prepared.inputs.features = [extractor = features.extractor](const torch::Tensor& x) {
      return (*extractor)(x);
    };
    prepared.inputs.features_name =
        fmt::format("{} features of {}", features.dimension, features.name);
    prepared.features = features;
  }
  prepared.contenders = find_contenders(job, prepared.open, execution);
  return prepared;
}

ModelComparison run_comparison(PreparedComparison prepared, int64_t keep,
                               const Execution& execution) {
  if (!prepared.job.real.empty()) {
    prepared.inputs.real = real_statistics(prepared.job.real, prepared.open, *prepared.features,
                                           prepared.cache, execution);
    prepared.inputs.real_name = prepared.job.real;
  }
  CompareOptions options = compare_options(prepared, prepared.inputs, execution);
  options.keep = std::min(keep, prepared.samples.count());
  options.team = execution.team;
  options.on_progress = [&](double done) { execution.report("comparing", done); };
  std::optional<CachedReference> reference;
  if (prepared.cache.is_on()) {
    reference.emplace(prepared, execution);
    options.reference = [&](int64_t begin, int64_t end) { return (*reference)(begin, end); };
  }
  const ChosenSamples& samples = prepared.samples;
  ModelComparison result;
  result.figures = compare(samples.model, prepared.contenders.solvers,
                           {samples.count(), samples.noise, samples.conditions}, options);
  result.cached_reference = reference && reference->was_there();
  if (reference) result.first = (*reference)(0, searched_count(prepared));
  result.prepared = std::move(prepared);
  return result;
}

std::optional<CatalogueNeed> find_need(const ModelComparison& comparison,
                                       const Execution& execution) {
  const Comparison& figures = comparison.figures;
  const ComparisonRow* featured = featured_row(comparison);
  if (featured == nullptr) return std::nullopt;
  const auto place = static_cast<size_t>(featured - figures.rows.data());
  // An evaluation of the catalogue's is guided, and takes two calls.
  const bool by_calls = unit_of(figures) == CostUnit::network_calls;
  const int evaluations = by_calls ? std::max(1, featured->model_calls / 2) : featured->nfe;
  if (evaluations >= comparison.prepared.job.equal_up_to) return std::nullopt;
  return need_of_catalogue(comparison, comparison.prepared.contenders.solvers[place].solver,
                           evaluations, execution);
}

}  // namespace bespoke
