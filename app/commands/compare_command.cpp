#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/printable_lines.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/table.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/best_of_catalogue.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/jobs/pair_maker.h"
#include "bespoke/measure/compare.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/sample/in_batches.h"
#include "commands/commands.h"
#include "options/cache_options.h"
#include "options/decode_options.h"
#include "options/feature_options.h"
#include "options/format_options.h"
#include "options/model_options.h"
#include "options/option_groups.h"
#include "options/report_options.h"
#include "options/retired_options.h"
#include "options/samples_options.h"
#include "options/solver_options.h"
#include "options/space_options.h"
#include "runs/catalogue_need.h"
#include "runs/compare_cache.h"
#include "runs/compare_report.h"
#include "runs/compare_sounds.h"
#include "runs/compare_tables.h"
#include "runs/filled_gaps.h"
#include "runs/real_data.h"
#include "runs/shown_execution.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kBest[] = "best";  // of the catalogue, on its best grid

struct CompareCommandOptions {
  ModelOptions model;
  SamplesOptions samples;
  std::string solvers = "euler,midpoint,heun,ab2,ddim,dpm++2m,unipc2-bh2,exp-ab2-noise,deis-t-ab2";
  std::string nfe = "4-16+4";
  std::string format = "table";
  double tolerance = 1e-6;
  std::string space = "sample";
  bool details = false;
  int64_t equal_up_to = 40;
  FeatureNetworkOptions features;
  std::string real;
  std::vector<std::string> judges;  // folders of classifiers
  CacheOptions cache;
  ReportOptions report;
  std::string sounds;  // a folder for them
};

// What is compared: each by its whole name, with those that are files, and which solvers `best` is.
struct Contenders {
  std::vector<NamedSolver> solvers;
  std::map<std::string, SolverFile> files;
  std::vector<std::string> notes;
};

// A catalogue solver at every NFE it can spend.
void add_by_name(const std::string& text, const FieldDescription& field,
                 const std::vector<int64_t>& nfes, Contenders& contenders) {
  const CatalogueEntry entry = entry_of(SolverName::parse(text));
  const auto add = [&](int64_t nfe) {
    contenders.solvers.push_back({text, resolve(text, static_cast<int>(nfe), field).at()});
  };
  const size_t before = contenders.solvers.size();
  for (const int64_t nfe : nfes) {
    if (entry.steps(static_cast<int>(nfe)) > 0) add(nfe);
  }
  // None fits: building the first one says which would.
  if (contenders.solvers.size() == before) add(nfes.front());
}

// The solvers of a file of as many evaluations as are asked for, or its only one.
void add_file(const std::string& text, const FieldDescription& field,
              const std::vector<int64_t>& nfes, Contenders& contenders) {
  const SolverFile file = finished(text, field);
  contenders.files[text] = file;
  if (file.solvers.size() == 1) {
    contenders.solvers.push_back({text, file.at()});
    return;
  }
  std::vector<int64_t> missing;
  for (const int64_t nfe : nfes) {
    if (file.has(static_cast<int>(nfe))) {
      contenders.solvers.push_back({text, file.at(static_cast<int>(nfe))});
    } else {
      missing.push_back(nfe);
    }
  }
  if (missing.empty()) return;
  const std::string found = fmt::format("{} has no solver of {} evaluations; it has {}", text,
                                        fmt::join(missing, ", "), fmt::join(file.nfes(), ", "));
  if (contenders.solvers.empty()) throw bad_input("{}", found);
  say("bespoke: {}", found);
}

// Pairs that `best` is chosen on: of another seed than any figure.
Pairs selection_pairs(const CompareCommandOptions& options, const OpenModel& open) {
  constexpr int64_t kCount = 24, kSeed = 0x62657374;
  PairSource source;
  source.seed = kSeed;
  source.count = kCount;
  source.tolerances = {options.tolerance, options.tolerance};
  source.conditions = read_conditions(open.card.conditions, options.samples.conditions, kCount,
                                      open.utterance_rows);
  const Execution execution = shown_execution(open, options.model.batch);
  return intact_pairs(make_pairs(open, source, execution, "reference for best"), "selection",
                      execution);
}

void add_best(const CompareCommandOptions& options, const OpenModel& open,
              const std::vector<int64_t>& nfes, Contenders& contenders) {
  const Pairs pairs = selection_pairs(options, open);
  TensorSamplesOptions side_by_side;
  side_by_side.device_batch = options.model.batch;
  side_by_side.joins_runs = true;
  side_by_side.mask = [&](const Conditions& given) { return error_mask(open.card, given); };
  const Samples samples = tensor_samples(
      std::make_shared<VelocityField>(guided(open, pairs.conditions)), pairs, side_by_side);
  for (const int64_t nfe : nfes) {
    Progress progress(fmt::format("best of the catalogue, {} NFE", nfe));
    const NamedSolver best = best_of_catalogue(
        samples, static_cast<int>(nfe), open.field(), [&](double done) { progress.update(done); },
        team());
    contenders.notes.push_back(fmt::format("{} at {} NFE is {}", kBest, nfe, best.name));
    contenders.solvers.push_back({kBest, best.solver});
  }
}

// Every solver at every NFE it can spend; the only solver of a file at its own, which joins the
// list. The search for `best` takes long, so it comes when all the others are known to be there;
// rows keep the order of the list.
Contenders find_contenders(const CompareCommandOptions& options, const OpenModel& open,
                           std::vector<int64_t>& nfes) {
  const std::vector<int64_t> asked = nfes;
  const auto texts = split_solver_names(options.solvers);
  std::vector<Contenders> parts(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == kBest) continue;
    if (!SolverName::parse(texts[i]).is_file()) {
      add_by_name(texts[i], open.field(), asked, parts[i]);
      continue;
    }
    add_file(texts[i], open.field(), asked, parts[i]);
    for (const auto& added : parts[i].solvers) nfes.push_back(added.solver.nfe());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == kBest) add_best(options, open, asked, parts[i]);
  }
  std::sort(nfes.begin(), nfes.end());
  nfes.erase(std::unique(nfes.begin(), nfes.end()), nfes.end());
  Contenders all;
  for (const Contenders& part : parts) {
    all.solvers.insert(all.solvers.end(), part.solvers.begin(), part.solvers.end());
    all.files.insert(part.files.begin(), part.files.end());
    all.notes.insert(all.notes.end(), part.notes.begin(), part.notes.end());
  }
  return all;
}

// Everything the figures are made of, checked before any of them is computed.
struct PreparedComparison {
  OpenModel open;
  bool decoded = false;  // whether the errors are of what is decoded
  ChosenSamples chosen;
  Contenders contenders;
  std::optional<FilledGaps> gaps;  // where they are filled
  std::optional<OpenFeatures> features;
  std::shared_ptr<const Jury> jury;  // null where nothing is judged
  TensorCache cache;
};

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
void warn_of_few_samples(const PreparedComparison& work) {
  const int64_t count = work.chosen.count(), dimension = work.features->dimension;
  if (!are_few_samples(count, dimension)) return;
  say("bespoke: warning: {} samples are few for distances over {} features, which will mostly show "
      "chance; give --count {} or more, or an extractor with fewer features",
      count, dimension, 10 * dimension);
}

void prepare_comparison(const CompareCommandOptions& options, std::vector<int64_t>& nfes,
                        PreparedComparison& work) {
  options.features.check();
  options.report.check();
  if (!options.real.empty() && options.features.file.empty()) {
    throw usage_error("--real goes with --features, which the distance to real data is taken in");
  }
  if (!options.real.empty()) check_real(options.real);
  // Several processes would have to agree on what is there.
  if (team().size() == 1) work.cache = open_cache(options.cache);
  work.open = open_model(options.model);
  work.decoded = in_decoded_space(work.open, options.space);
  if (!options.sounds.empty() && work.open.card.sample_rate == 0) {
    throw usage_error("--sounds is for models of sounds, {} is none", work.open.name);
  }
  work.chosen = choose_samples(work.open, options.samples);
  if (work.open.utterances) work.gaps.emplace(work.open, work.chosen);
  work.jury = open_jury(options.judges, work.open, work.chosen);
  if (options.features.file.empty()) {
    work.contenders = find_contenders(options, work.open, nfes);
    return;
  }
  work.features = open_features(options.features, work.open);
  require_enough_samples(work.chosen.count(), work.features->dimension,
                         fmt::format("--count {}", work.chosen.count()));
  warn_of_few_samples(work);
  work.contenders = find_contenders(options, work.open, nfes);
}

struct ComparisonResult {
  Comparison figures;
  std::optional<ReferenceResult> first;  // of the first samples, where the cache has them
  bool cached_reference = false;
  int64_t real_count = 0;
  // Of the recordings whose gaps are filled, for comparison.
  std::optional<double> recorded_flux, recorded_agreement;
};

CompareOptions library_options(const PreparedComparison& work,
                               const CompareCommandOptions& options) {
  CompareOptions result;
  result.batch = options.model.batch;
  result.tolerances = {options.tolerance, options.tolerance};
  result.guidance = work.open.guidance;
  result.errors_of_decoded = work.decoded;
  result.peak = value_peak(work.open, work.decoded);
  result.latent_peak = value_peak(work.open, false);
  if (work.open.decoder) {
    result.decode = [&](const torch::Tensor& x, int64_t) { return work.open.decoder->decode(x); };
    result.snr_of_both = work.open.card.sample_rate > 0;
  }
  if (work.features) {
    result.features = [&](const torch::Tensor& x) { return (*work.features->extractor)(x); };
  }
  result.jury = work.jury;
  result.team = &team();
  if (!work.open.card.error_masks.empty()) {
    const torch::Tensor mask = error_mask(work.open.card, work.chosen.conditions);
    std::vector<int64_t> sizes = mask.sizes().vec();
    sizes.front() = work.chosen.count();
    result.filled = mask.expand(sizes);
  }
  if (work.gaps) work.gaps->apply_to(result);
  if (options.report.any() || !options.sounds.empty())
    result.keep = std::min(kReportSamples, work.chosen.count());
  return result;
}

ComparisonResult measure(const PreparedComparison& work, const CompareCommandOptions& options) {
  ComparisonResult result;
  CompareOptions library = library_options(work, options);
  if (!options.real.empty()) {
    library.real_statistics =
        real_statistics(options.real, work.open, *work.features, work.cache, library.batch);
    result.real_count = library.real_statistics->count;
  }
  if (work.gaps) {
    result.recorded_flux = work.gaps->recorded_flux();
    result.recorded_agreement = recorded_agreement(*work.gaps, library, work.chosen.count());
  }
  std::optional<CachedReference> reference;
  if (work.cache.is_on()) {
    reference.emplace(work.cache, work.open, work.chosen, library.tolerances, library.batch);
    library.reference = [&](int64_t begin, int64_t end) { return (*reference)(begin, end); };
  }
  Progress progress("comparing");
  library.on_progress = [&](double done) { progress.update(done); };
  result.figures =
      compare(work.chosen.model, work.contenders.solvers,
              {work.chosen.count(), work.chosen.noise, work.chosen.conditions}, library);
  result.cached_reference = reference && reference->was_there();
  if (reference) result.first = (*reference)(0, searched_samples(work.chosen.count()));
  return result;
}

// What of the samples the figures are of, where it is not all.
std::string counted_part(const PreparedComparison& work) {
  if (work.gaps) return ", in the filled spans";
  const bool masked = !work.decoded && !work.open.card.error_masks.empty();
  return masked ? ", of what the error mask counts" : "";
}

std::string psnr_title(const PreparedComparison& work, const ComparisonResult& result,
                       const CompareCommandOptions& options) {
  return fmt::format(
      "PSNR in dB (peak-to-peak {:g}, {} space{}) against the reference ({:.0f} evaluations "
      "per sample, tolerance {:g}){}{}\n{}",
      value_peak(work.open, work.decoded), work.decoded ? "decoded" : "sample", counted_part(work),
      result.figures.reference_evaluations, options.tolerance,
      result.cached_reference ? " (cached)" : "",
      options.details ? "" : ", ± standard error, by " + to_string(unit_of(result.figures)),
      work.chosen.title + few_samples_note(work.chosen.count()));
}

std::string latent_title(const PreparedComparison& work, const std::string& unit) {
  return fmt::format("PSNR in dB of the latents themselves (peak-to-peak {:g}), by {}",
                     value_peak(work.open, false), unit);
}

// "512 features of inception.pt": what every Fréchet distance is relative to.
std::string features_title(const OpenFeatures& features) {
  return fmt::format("{} features of {}", features.dimension, features.name);
}

std::string reference_distance_title(const PreparedComparison& work,
                                     const ComparisonResult& result) {
  std::string title = fmt::format("Fréchet distance to the reference's samples ({} samples, {})",
                                  work.chosen.count(), features_title(*work.features));
  if (result.figures.frechet_noise) {
    title += fmt::format("; two halves of these are {:.4g} apart", *result.figures.frechet_noise);
  }
  return title;
}

std::string real_distance_title(const PreparedComparison& work, const ComparisonResult& result,
                                const std::string& real) {
  return fmt::format(
      "Fréchet distance to the real data {} ({} of them, {} samples, {}); the reference's is "
      "{:.4g}",
      real, result.real_count, work.chosen.count(), features_title(*work.features),
      *result.figures.reference_frechet_to_real);
}

// Where samples are judged; empty otherwise.
std::string render_agreement(const ComparisonResult& result, TableFormat format,
                             const std::vector<int64_t>& nfes) {
  const Comparison& figures = result.figures;
  if (!figures.reference_agreement) return "";
  std::string title =
      fmt::format("{}, in %, by {}; of the reference's {:.1f}",
                  result.recorded_agreement ? "filled spans in which the right word is recognised"
                                            : "samples that show what their prompt says",
                  to_string(unit_of(figures)), 100 * *figures.reference_agreement);
  if (result.recorded_agreement) {
    title += fmt::format(", of the recordings' {:.1f}", 100 * *result.recorded_agreement);
  }
  return "\n" + figures_by_cost(figures, nfes, agreement_cell).render(format, title);
}

// Of sounds: SNR of latents and waveforms, and what is heard at the joints; empty otherwise.
std::string render_sound_figures(const PreparedComparison& work, const ComparisonResult& result,
                                 TableFormat format, const std::vector<int64_t>& nfes) {
  const Comparison& figures = result.figures;
  const std::string where = work.gaps ? ", in the filled spans" : "";
  const std::string unit = to_string(unit_of(figures));
  std::string text;
  const auto add = [&](const std::string& title, const std::optional<double> ComparisonRow::*part) {
    const auto cell = [&](const ComparisonRow& row) { return decibel_cell(row, row.*part); };
    text += "\n" + figures_by_cost(figures, nfes, cell).render(format, title + ", by " + unit);
  };
  if (work.open.decoder && work.open.card.sample_rate > 0) {
    add("SNR in dB of the latents" + where, &ComparisonRow::latent_snr);
    add("SNR in dB of the waveform" + where, &ComparisonRow::decoded_snr);
  }
  if (figures.reference_joint_flux) {
    add(fmt::format("spectral flux at the joints in dB; the reference's {:.2f}, the recordings' "
                    "{:.2f}",
                    *figures.reference_joint_flux, result.recorded_flux.value_or(0)),
        &ComparisonRow::joint_flux);
  }
  return text;
}

// Where each sample has its own w; empty otherwise.
std::string render_by_guidance(const Comparison& figures, TableFormat format) {
  if (figures.guidance_bins.empty()) return "";
  return "\n" + figures_by_guidance(figures).render(
                    format, "PSNR in dB by guidance w (guidance_scale is 1 + w)");
}

// For people: one table, or one for each kind of figure by NFE.
std::string render_for_people(const PreparedComparison& work, const ComparisonResult& result,
                              const CompareCommandOptions& options, TableFormat format,
                              const std::vector<int64_t>& nfes) {
  std::string title = psnr_title(work, result, options);
  const std::string to_reference = work.features ? reference_distance_title(work, result) : "";
  const std::string to_real =
      options.real.empty() ? "" : real_distance_title(work, result, options.real);
  if (options.details) {
    if (!to_reference.empty()) title += "\nfd_ref: " + to_reference;
    if (!to_real.empty()) title += "\nfd_real: " + to_real;
    return all_figures(result.figures, work.chosen.title, true).render(format, title) +
           render_by_guidance(result.figures, format);
  }
  const std::string unit = to_string(unit_of(result.figures));
  std::string text = figures_by_cost(result.figures, nfes, psnr_cell).render(format, title);
  if (work.decoded) {
    const auto cell = [](const ComparisonRow& row) { return decibel_cell(row, row.latent_psnr); };
    text +=
        "\n" + figures_by_cost(result.figures, nfes, cell).render(format, latent_title(work, unit));
  }
  const auto add = [&](const std::string& heading,
                       const std::optional<double> ComparisonRow::*distance) {
    if (heading.empty()) return;
    const auto cell = [&](const ComparisonRow& row) { return distance_cell(row, row.*distance); };
    text +=
        "\n" + figures_by_cost(result.figures, nfes, cell).render(format, heading + ", by " + unit);
  };
  add(to_reference, &ComparisonRow::frechet_to_reference);
  add(to_real, &ComparisonRow::frechet_to_real);
  return text + render_sound_figures(work, result, format, nfes) +
         render_agreement(result, format, nfes) + render_by_guidance(result.figures, format);
}

// Beside figures for programs, which have no room for sentences.
void tell_notes(const std::vector<std::string>& notes) {
  for (const auto& note : notes) say("bespoke: {}", note);
}

// The model's own samples of the first noise.
ReferenceResult first_of_reference(const PreparedComparison& work, const ComparisonResult& result,
                                   const CompareOptions& library) {
  if (result.first) return *result.first;
  const int64_t count = searched_samples(work.chosen.count());
  Batching batching;
  batching.batch = library.batch;
  return reference_in_batches(work.chosen.model, work.chosen.noise(0, count),
                              slice(work.chosen.conditions, 0, count), library.tolerances,
                              batching);
}

// What the best of the catalogue needs to come as near as `featured`, of `evaluations` or of
// network calls that would pay for as many, on the first samples.
CatalogueNeed need_of_catalogue(const PreparedComparison& work, const ComparisonResult& result,
                                const NsSolver& featured, int evaluations,
                                const CompareCommandOptions& options) {
  CompareOptions library = library_options(work, options);
  const ReferenceResult reference = first_of_reference(work, result, library);
  library.features = nullptr;
  library.jury = nullptr;
  library.joint_flux = nullptr;
  library.snr_of_both = false;
  library.keep = 0;
  library.team = &alone();
  library.reference = [&](int64_t begin, int64_t end) {
    return ReferenceResult{reference.x.slice(0, begin, end),
                           reference.evaluations.slice(0, begin, end)};
  };
  constexpr double kUsualRounds = 12;
  double rounds = 0;
  Progress progress("what the best of the catalogue needs");
  library.on_progress = [&](double done) {
    progress.update(std::min(1.0, (rounds + done) / kUsualRounds));
  };
  CatalogueSearch search;
  search.solver = featured;
  search.field = work.open.field();
  search.data_deviation = reference.x.square().mean().sqrt().item<double>();
  search.samples = searched_samples(work.chosen.count());
  search.first = evaluations;
  search.most = static_cast<int>(options.equal_up_to);
  search.measured = [&](const std::vector<NamedSolver>& solvers, int64_t count) {
    const Comparison found = compare(work.chosen.model, solvers, work.chosen.noise(0, count),
                                     slice(work.chosen.conditions, 0, count), library);
    rounds += 1;
    std::vector<double> psnr;
    for (const auto& row : found.rows) psnr.push_back(row.psnr);
    return psnr;
  };
  return catalogue_need(search);
}

// None where no solver is spoken of, or where as many evaluations as it is worth are not to be
// tried.
std::optional<CatalogueNeed> look_for_need(const PreparedComparison& work,
                                           const ComparisonResult& result,
                                           const ComparedModel& compared,
                                           const CompareCommandOptions& options) {
  const ComparisonRow* featured = featured_row(compared);
  if (!is_first() || featured == nullptr) return std::nullopt;
  const auto place = static_cast<size_t>(featured - result.figures.rows.data());
  // An evaluation of the catalogue's is guided, and takes two calls.
  const bool by_calls = unit_of(result.figures) == CostUnit::network_calls;
  const int evaluations = by_calls ? std::max(1, featured->model_calls / 2) : featured->nfe;
  if (evaluations >= options.equal_up_to) return std::nullopt;
  return need_of_catalogue(work, result, work.contenders.solvers[place].solver, evaluations,
                           options);
}

void run_compare(const CompareCommandOptions& options) {
  const TableFormat format = parse_table_format(options.format);
  std::vector<int64_t> nfes = parse_integer_list(options.nfe, "--nfe");
  for (const int64_t nfe : nfes) check_nfe(nfe);
  PreparedComparison work;
  prepare_comparison(options, nfes, work);
  from_first([&] {
    options.report.make_room();
    if (!options.sounds.empty()) make_folders(options.sounds);
    return "";
  });
  const ComparisonResult result = measure(work, options);
  const bool for_programs = format == TableFormat::csv || format == TableFormat::json;
  fmt::print("{}", for_programs
                       ? all_figures(result.figures, work.chosen.title, false).render(format)
                       : render_for_people(work, result, options, format, nfes));
  ComparedModel compared = {work.open,
                            work.chosen,
                            result.figures,
                            work.contenders.files,
                            work.contenders.notes,
                            work.decoded,
                            options.tolerance,
                            counted_part(work),
                            work.gaps ? &*work.gaps : nullptr};
  if (!for_programs || options.report.any()) {
    compared.catalogue = look_for_need(work, result, compared, options);
  }
  if (!for_programs && !work.contenders.notes.empty()) {
    fmt::print("\n{}\n",
               printable_lines(fmt::format("{}", fmt::join(work.contenders.notes, "\n"))));
  }
  const std::string finding = for_programs ? "" : finding_of(compared);
  if (!finding.empty()) fmt::print("\n{}\n", printable(finding));
  if (!is_first()) return;
  if (for_programs) tell_notes(work.contenders.notes);
  if (options.report.any()) write_reports(make_report(compared), options.report);
  if (!options.sounds.empty()) write_compared_sounds(compared, options.sounds);
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto options = std::make_shared<CompareCommandOptions>();
  auto* command = app.add_subcommand(
      "compare",
      "Measure how near solvers come to the model's own samples, from the same noise.\n\n"
      "Examples:\n  bespoke compare --nfe 4-20+2\n"
      "  bespoke compare --solvers euler,midpoint,my.solver.json --nfe 8 --model "
      "analytic:mixture@vp\n"
      "  bespoke compare --model cifar10-fm-ot --solvers best,dpm++2m/karras,my.solver.json --nfe "
      "8\n"
      "  bespoke compare --nfe 8 --details\n"
      "  bespoke compare --format csv > figures.csv\n"
      "  bespoke compare --model model.json --solvers euler,midpoint,run/bns.solver.json "
      "--nfe 4-24+4 --report report.html\n"
      "  bespoke compare --model model.json --count 10000 --features inception.pt "
      "--features-range 0,1 --features-size 299 --real images.zip\n"
      "  bespoke compare --model infill/model.json --utterances speech/seen --judge digits --nfe 8 "
      "--report report.html");
  command
      ->add_option("--solvers", options->solvers,
                   fmt::format("comma-separated, each {}; 'best' is the catalogue's best at each "
                               "NFE over all grids, chosen on samples of their own",
                               kSolverNames))
      ->capture_default_str();
  command->add_option("--nfe", options->nfe, "evaluations, a list such as 4,8 or 4-20+2")
      ->capture_default_str();
  command->add_option("--tolerance", options->tolerance, "of the reference, relative and absolute")
      ->capture_default_str();
  command
      ->add_option("--equal-up-to", options->equal_up_to,
                   "looks up to this NFE for how many evaluations the best of the catalogue needs "
                   "to come as near as the distilled solver; 0 does not look")
      ->check(CLI::Range(0, kMostEvaluations))
      ->capture_default_str();
  options->model.add_to(*command);
  options->model.add_utterances_to(*command);
  options->samples.add_to(*command);
  add_space_option(*command, options->space);
  add_retired_solver_options(*command, "--solvers dpm++2m");
  command->add_flag("--details", options->details,
                    "also SNR, quantiles of the squared error and time, a row for each");
  options->features.add_to(*command,
                           "adds Fréchet distances between sets of samples; with an Inception "
                           "network, the FID");
  command->add_option(
      "--real", options->real,
      "real data to take distances to as well: a folder or .zip of images or sounds, "
      "or a .safetensors or .npy file of samples");
  command->add_option("--judge", options->judges,
                      "folder of a 'bespoke-train classifier': counts the samples that "
                      "show what their prompts say, or of --utterances the spans in which it "
                      "recognises what is \"said\"; repeatable");
  add_decode_option(*command);
  options->cache.add_to(*command);
  options->report.add_to(*command);
  command->add_option("--sounds", options->sounds,
                      "of a model of sounds: a folder for WAVs of the first samples, by the "
                      "reference and by each solver from the same noise");
  add_format_option(*command, options->format);
  group_options(
      *command,
      {{"What to compare", {"--solvers", "--nfe"}},
       {"Of what",
        {"--model", "--guidance", "--guidance-scale", "--guidance-interval", "--cond", "--prompt",
         "--prompts", "--utterances", "--count", "--seed", "--seeds", "--noise"}},
       {"What to measure",
        {"--tolerance", "--space", "--features", "--features-range", "--features-size", "--real",
         "--judge", "--equal-up-to", "--details"}},
       {"What to write", {"--format", "--report", "--png", "--force", "--sounds"}},
       running_group()});
  command->callback([options] { run_compare(*options); });
}

}  // namespace bespoke
