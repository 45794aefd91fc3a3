#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/table.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/run_folder.h"
#include "bespoke/jobs/training_pairs.h"
#include "bespoke/model/fields.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/solver/solver_file.h"
#include "bespoke/tensor/errors.h"
#include "bespoke/version.h"
#include "commands/commands.h"
#include "commands/pairs_command.h"
#include "options/distill_options.h"
#include "options/model_options.h"
#include "options/space_options.h"
#include "program/invocation.h"
#include "runs/distill_run.h"
#include "runs/shown_execution.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

MatchedFeatures matched(const std::optional<OpenFeatures>& features) {
  return features ? MatchedFeatures{features->extractor, features->dimension} : MatchedFeatures{};
}

// What is made now: as many as calls pay for where they are limited, for the most evaluations.
PairRequest pairs_wanted(const DistillCommandOptions& options, const DistillJob& job,
                         const OpenModel& open, const std::optional<OpenFeatures>& features,
                         const Execution& execution) {
  const int most = job.nfes.back();
  DistillJob of_samples = job;  // what is decoded costs no calls
  of_samples.of_decoded = false;
  ModelDistillOptions plan = distill_options(of_samples, open, matched(features), most, execution);
  if (job.most_calls > 0) {
    plan = within_calls(plan, options.samples);
  } else if (options.samples > 0) {
    plan.training_plan.count = options.samples;
  }
  const Tolerances usual = usual_tolerances(most > 0 ? most : job.network_calls);
  const double tolerance = options.tolerance.value_or(usual.rtol);
  PairRequest request;
  request.conditions = options.conditions;
  request.plan.tolerances = {tolerance, tolerance};
  request.plan.train.count = plan.training_plan.count;
  request.plan.validation.count = plan.validation_plan.count;
  request.matching = options.makes_matching_samples(job) ? plan.match_samples : 0;
  request.matching_tolerances = plan.match_tolerances;
  request.fixed_evaluations = plan.fixed_evaluations;
  return request;
}

// What 'bespoke pairs' makes with these conditions, and this tolerance where one is given.
void fill_with_usual_pairs(const DistillCommandOptions& options, const OpenModel& open,
                           const std::string& folder) {
  PairRequest request;
  request.conditions = options.conditions;
  if (options.tolerance) request.plan.tolerances = {*options.tolerance, *options.tolerance};
  fill_and_report(open, request, options.model.batch, folder);
}

// Pairs of a folder, or made now: a few in memory for methods that need no more, or a folder of
// hundreds.
TrainingPairs load_training_pairs(const DistillCommandOptions& options, const DistillJob& job,
                                  const OpenModel& open,
                                  const std::optional<OpenFeatures>& features,
                                  const Execution& execution) {
  std::string folder = options.pairs;
  if (folder.empty() && job.method != Method::adam) {
    return make_training_pairs(open, pairs_wanted(options, job, open, features, execution),
                               execution);
  }
  if (folder.empty()) fill_with_usual_pairs(options, open, folder = options.output + "/pairs");
  return read_training_pairs(folder, options.samples, job.method, open, execution);
}

// One distillation, from its start or checkpoint to its end.
struct Outcome {
  nlohmann::json summary;
  NsSolver solver;
};

// "10 NFE (16 network calls)" of a solver that guides itself.
std::string evaluations_text(const SolverShape& shape) {
  const std::string nfe = fmt::format("{} NFE", shape.nfe);
  if (!shape.guides_itself()) return nfe;
  return fmt::format("{} ({} network calls, the first {} steps guided)", nfe, shape.calls(),
                     shape.guided.size());
}

std::string describe_progress(const DistillProgress& progress) {
  return fmt::format(
      "iteration {}, loss {:.3f}, validation {:.2f} dB, best {:.2f} dB, {:.0f}k "
      "forwards",
      progress.iteration, progress.loss, progress.validation_psnr, progress.best_psnr,
      static_cast<double>(progress.training.forwards) / 1000);
}

// A solver that can be used already, after seconds.
void say_start(const StartState& start, const Counts& screening, const SolverShape& shape) {
  say("{}: {:.2f} dB from {}, {} calls", evaluations_text(shape), start.initial_psnr, start.name,
      grouped(screening.forwards));
}

// What the next distillation need not find out again.
void say_less_memory(const TensorSamplesOptions& left) {
  say("bespoke: out of memory, going on with --batch {}", left.device_batch);
}

// The file of the run, with no solver yet.
SolverFile begin_solver_file(const DistillJob& job, const OpenModel& open,
                             const TrainingPairs& data) {
  SolverFile file;
  file.name = job.family;
  file.field = open.field();
  file.provenance = {{"made_by", "bespoke " BESPOKE_VERSION " distill"},
                     {"command", invocations().back()},
                     {"model", open.identity()},
                     {"pairs", data.provenance},
                     {"reference_evaluations", data.reference_evaluations},
                     {"method", to_string(job.method)},
                     {"space", job.of_decoded ? "decoded" : "sample"}};
  return file;
}

// The mean over the validation pairs of |x(1)|^2 / |r|^2 in decibels, how sound is measured.
double validation_snr(const ModelPtr& model, const Pairs& pairs,
                      const TensorSamplesOptions& options, const NsSolver& solver) {
  const torch::NoGradGuard no_grad;
  const Samples samples = tensor_samples(std::make_shared<VelocityField>(model), pairs, options);
  Counts counts;
  auto errors = samples.log_errors(solver, first_samples(samples), &counts);
  for (double& error : errors) error = std::exp(error);
  std::vector<double> powers;
  for_each_batch(pairs.count(), options.device_batch, nullptr,
                 [&](int64_t begin, int64_t end, const auto&) {
                   const torch::Tensor x = pairs.x1.slice(0, begin, end);
                   const torch::Tensor target = options.decode ? options.decode(x) : x;
                   const auto some = mean_squared_errors(target, torch::zeros_like(target));
                   powers.insert(powers.end(), some.begin(), some.end());
                 });
  return mean_snr(errors, powers);
}

Table summary_table(const std::vector<Outcome>& outcomes) {
  const bool audio = outcomes.front().summary.contains("validation_snr");
  const bool own_guidance = outcomes.front().solver.guides_itself();
  std::vector<Table::Column> columns = {{"NFE", true},         {"start"},
                                        {"start dB", true, 2}, {"best dB", true, 2},
                                        {"train dB", true, 2}, {"iterations", true},
                                        {"forwards", true},    {"VJPs", true},
                                        {"seconds", true, 1},  {"ended"}};
  if (audio) columns.insert(columns.begin() + 4, {"best SNR dB", true, 2});
  if (own_guidance) columns.insert(columns.begin() + 1, {"calls", true});
  Table table(columns);
  for (const auto& outcome : outcomes) {
    const auto& s = outcome.summary;
    std::vector<nlohmann::json> row = {outcome.solver.nfe(),
                                       s["start"],
                                       s["initial_psnr"],
                                       s["validation_psnr"],
                                       s.value("training_psnr", nlohmann::json()),
                                       s["iterations"],
                                       s["forwards"],
                                       s["vjps"],
                                       s["seconds"],
                                       s["ended"]};
    if (audio) row.insert(row.begin() + 4, s["validation_snr"]);
    if (own_guidance) row.insert(row.begin() + 1, outcome.solver.shape().calls());
    table.add_row(row);
  }
  return table;
}

// What must be the same for a run to be continued: the job, and what it is done on.
nlohmann::json what_decides(const DistillJob& job, const OpenModel& open,
                            const std::optional<OpenFeatures>& features,
                            const TrainingPairs& data) {
  nlohmann::json decisive = to_json(job);
  decisive["model"] = open.identity();
  decisive["guidance"] = describe(open.guidance);
  decisive["precision"] = open.precision;
  decisive["pairs"] = data.provenance;
  for (const auto& [part, mask] : open.card.error_masks) {
    decisive["error_mask"][part] = {mask.condition, mask.inverted, mask.file.string()};
  }
  if (features) decisive["features"] = features->identity;
  return decisive;
}

// Methods that look at one number a sample need more of them than there are parameters.
void warn_of_few_pairs(const TrainingPairs& data, const ModelDistillOptions& options) {
  if (options.method != Method::adam) return;
  const auto parameters = static_cast<int64_t>(options.family->parameter_count());
  if (data.train.count() >= parameters) return;
  say("bespoke: {} training pairs are few for {} parameters; the solver may not carry over "
      "to other samples",
      data.train.count(), parameters);
}

// Everything a run of the command has at hand.
struct Session {
  const DistillJob job;
  const OpenModel& open;
  const MatchedFeatures features;
  const Execution execution;
  const std::filesystem::path folder;
  TrainingPairs data;
  ModelPtr model;                                   // guided
  std::filesystem::path path = {};                  // of the file that all solvers go to
  SolverFile file = {};                             // as it is written there once a solver is found
  std::optional<TensorSamplesOptions> memory = {};  // what the last distillation made do with

  void keep(const Outcome& outcome) {
    file.put({outcome.solver, outcome.summary});
    if (is_first()) write_solver_file(path, file);
  }
};

// Ends the command as a distillation that diverged does, however often it is asked.
[[noreturn]] void report_divergence(const Session& session, const Outcome& outcome) {
  throw Error(ErrorKind::diverged,
              fmt::format("{}; {} has the best solver before that ({:.2f} dB)",
                          outcome.summary.value("message", "the distillation diverged"),
                          session.path.string(), outcome.summary.value("validation_psnr", 0.0)));
}

// How much of a distillation is done: of its iterations, or of its calls where these end it before.
double done_of(const ModelDistillOptions& settings, const DistillProgress& info) {
  const double iterations =
      static_cast<double>(info.iteration) / static_cast<double>(settings.most_iterations());
  if (settings.most_forwards == 0) return iterations;
  const int64_t spent =
      settings.reference_forwards + info.training.forwards + info.validation.forwards;
  return std::max(iterations,
                  static_cast<double>(spent) / static_cast<double>(settings.most_forwards));
}

// Runs it with a progress bar, storing where it has got to where there is a run to store it in.
DistillSummary run_and_record(Session& session, ModelDistillOptions& settings, DistillState latest,
                              DistillRun* run) {
  const std::string label =
      settings.network_calls > 0
          ? fmt::format("{} {} network calls", session.job.family, settings.network_calls)
          : fmt::format("{} {} NFE", session.job.family, settings.nfe);
  auto progress = std::make_unique<Progress>(label);
  std::string shown = label;
  settings.on_progress = [&](const std::string& what, double done) {
    if (what != shown) progress = std::make_unique<Progress>(shown = what);
    progress->update(done);
  };
  settings.on_iteration = [&](const DistillProgress& info, const DistillState& state) {
    if (shown != label) progress = std::make_unique<Progress>(shown = label);
    latest = state;
    if (run != nullptr) run->record(info, state);
    progress->show(done_of(settings, info), describe_progress(info));
    return interrupt_requested() ? Verdict::stop : Verdict::go_on;
  };
  settings.on_start = [&](const StartState& start, const Counts& screening,
                          const SolverShape& shape) {
    progress = std::make_unique<Progress>(shown = label);
    say_start(start, screening, shape);
  };
  settings.on_less_memory = [&](const TensorSamplesOptions& left) {
    say_less_memory(left);
    session.memory = left;
  };
  settings.training = session.data.train;
  settings.validation = session.data.validation;
  if (!session.data.validation) settings.validation_plan.count = 0;
  settings.reference_forwards =
      session.data.reference_evaluations * (settings.network_calls > 0 ? 2 : 1);
  // A folder of pairs is all there is: its training pairs are matched too.
  settings.matching = session.data.matching ? session.data.matching : session.data.train;
  const DistillSummary summary = distill(session.model, settings, latest);
  if (run != nullptr) run->store(latest);
  return summary;
}

// A distillation that ended in an earlier run. Its solver is in the file that run left.
Outcome read_outcome(Session& session, int nfe, const nlohmann::json& summary) {
  const SolverFile earlier = read_solver_file(session.path);
  Outcome outcome = {summary, earlier.at(nfe)};
  session.file.put(earlier.only(nfe).solvers.front());
  if (summary.value("ended", "") == to_string(Ending::diverged)) {
    report_divergence(session, outcome);
  }
  return outcome;
}

// Where a distillation stands.
struct Standing {
  std::optional<nlohmann::json> finished;  // its summary
  DistillState state;
};

// As its folder says, which the first process alone opens, as `run`.
Standing find_standing(std::optional<DistillRun>& run, const Session& session, int nfe) {
  const std::string text = from_first([&] {
    run.emplace(distillation_folder(session.folder, nfe, session.job.network_calls));
    const nlohmann::json told = {{"summary", run->finished().value_or(nlohmann::json())},
                                 {"state", to_json_text(run->state())}};
    return json_text(told);
  });
  const auto told = nlohmann::json::parse(text);
  Standing standing;
  if (told["summary"].is_object()) standing.finished = told["summary"];
  standing.state = parse_distill_state(told["state"], session.folder.string());
  return standing;
}

Outcome distill_one(Session& session, int nfe) {
  ModelDistillOptions settings =
      distill_options(session.job, session.open, session.features, nfe, session.execution);
  warn_of_few_pairs(session.data, settings);
  std::optional<DistillRun> run;
  const Standing standing = find_standing(run, session, nfe);
  if (standing.finished) return read_outcome(session, nfe, *standing.finished);
  if (session.memory) settings.samples.device_batch = session.memory->device_batch;
  const DistillSummary result =
      run_and_record(session, settings, standing.state, run ? &*run : nullptr);
  Outcome outcome = {to_json(result.provenance()), result.solver};
  // Of all numbers, so there is none where some do not count; and it takes calls of its own.
  if (session.open.card.sample_rate > 0 && session.open.card.error_masks.empty() &&
      session.job.most_calls == 0) {
    outcome.summary["validation_snr"] =
        validation_snr(session.model, session.data.measured(),
                       session.memory.value_or(settings.samples), result.solver);
  }
  session.keep(outcome);
  if (result.ending == Ending::stopped) {
    throw Error(
        ErrorKind::interrupted,
        fmt::format("interrupted; {} has the best so far ({:.2f} dB at {}), add --resume to go on",
                    session.path.string(), result.validation_psnr,
                    evaluations_text(result.solver.shape())));
  }
  if (run) run->finish(outcome.summary);
  if (result.ending == Ending::diverged) report_divergence(session, outcome);
  return outcome;
}

// What gradients are needed for is refused before the first one is asked for.
void check_gradients(const DistillJob& job, const OpenModel& open) {
  if (job.method != Method::adam) return;
  if (!open.network || has_gradients(*open.network)) return;
  throw bad_input(
      "--method adam needs gradients, and {} is compiled and has none; use --method fit or direct, "
      "or the model as TorchScript",
      open.name);
}

// Every mistake in the options is found before pairs are made or the folder is touched.
void check_all(const DistillCommandOptions& options, const DistillJob& job, const OpenModel& open,
               const std::optional<OpenFeatures>& features, const Execution& execution) {
  for (const int nfe : job.nfes) {
    distill_options(job, open, matched(features), nfe, execution).validate();
  }
  const int64_t given = job.match_samples;
  if (features && options.makes_matching_samples(job) && given > 0 &&
      given <= features->dimension) {
    throw usage_error(
        "the statistics of {} features need more samples than that to match them on; give "
        "--match-samples {} or more, found {}",
        features->dimension, features->dimension + 1, given);
  }
  if (options.pairs.empty()) pairs_wanted(options, job, open, features, execution);
  check_gradients(job, open);
}

// On what a budget went.
std::string spending(const Outcome& outcome) {
  const auto of = [&](const char* key) { return outcome.summary.value(key, int64_t{0}); };
  const int64_t samples = of("reference_forwards"), fits = of("screening_forwards");
  const int64_t training = of("forwards"), measuring = of("validation_forwards");
  return fmt::format(
      "{}: {} calls, {} for the model's own samples, {} for fits, {} to train, {} to measure",
      evaluations_text(outcome.solver.shape()), grouped(samples + fits + training + measuring),
      grouped(samples), grouped(fits), grouped(training), grouped(measuring));
}

// Whether an iteration moved a solver towards the statistics: a budget may end before.
bool has_matched(const Outcome& outcome) {
  return outcome.summary.contains("match") && outcome.summary["match"]["iterations"] > 0;
}

// What statistics gained, and what that cost.
std::string matching_text(const Outcome& outcome) {
  const nlohmann::json& match = outcome.summary["match"];
  const nlohmann::json& distance = match["statistics_distance"];
  return fmt::format(
      "{}: matching statistics took their distance from {:.3g} to {:.3g} and the PSNR from {:.2f} "
      "dB to {:.2f}, for {} calls",
      evaluations_text(outcome.solver.shape()), distance[0].get<double>(),
      distance[1].get<double>(), match["psnr_before"].get<double>(),
      outcome.summary["validation_psnr"].get<double>(), grouped(match["forwards"].get<int64_t>()));
}

std::string measured_on(const TrainingPairs& data) {
  if (!data.validation) return "the pairs themselves, as few calls hold out none";
  constexpr int64_t kEnough = 16;
  const int64_t count = data.validation->count();
  return fmt::format("{} held-out pairs{}", count,
                     count < kEnough ? " (few, and they chose among iterates too)" : "");
}

void print_results(const Session& session, const std::vector<Outcome>& outcomes) {
  const bool decoded = session.job.of_decoded;
  const std::string title = fmt::format(
      "PSNR in dB (peak-to-peak {:g}, {} space) on {}, distilled on {} by {}\n{}",
      value_peak(session.open, decoded), decoded ? "decoded" : "sample", measured_on(session.data),
      session.data.train.count(), to_string(session.job.method), session.open.title());
  fmt::print("{}\n", summary_table(outcomes).render(TableFormat::table, title));
  for (const Outcome& outcome : outcomes) {
    if (has_matched(outcome)) fmt::print("{}\n", matching_text(outcome));
    if (session.job.most_calls > 0) fmt::print("{}\n", spending(outcome));
  }
  fmt::print("in {}\n", session.path.string());
}

// Some systems take no colon in names of files, as families like times:METHOD have one.
std::string file_stem(std::string family) {
  std::replace(family.begin(), family.end(), ':', '-');
  return family;
}

void run_distill(const DistillCommandOptions& options) {
  const DistillJob job = options.job();
  const OpenModel open = open_model(options.model);
  in_decoded_space(open, options.space);  // refuses one that the model has not
  std::optional<OpenFeatures> features;
  if (!options.features.file.empty()) features = open_features(options.features, open);
  const Execution execution = shown_execution(open, options.model.batch);
  check_all(options, job, open, features, execution);
  from_first([&] {
    refuse_unless_resumed(options.output, options.resume);
    return "";
  });
  Session session{
      job,       open,           matched(features),
      execution, options.output, load_training_pairs(options, job, open, features, execution),
      nullptr};
  session.model = guided(open, session.data.train.conditions);
  session.path = session.folder / (file_stem(job.family) + ".solver.json");
  session.file = begin_solver_file(job, open, session.data);
  std::optional<FolderLock> lock;
  from_first([&] {
    lock.emplace(claim_folder(session.folder, what_decides(job, open, features, session.data),
                              options.resume));
    return "";
  });
  std::vector<Outcome> outcomes;
  for (const int nfe : job.nfes) outcomes.push_back(distill_one(session, nfe));
  print_results(session, outcomes);
}

}  // namespace

void add_distill_command(CLI::App& app) {
  auto options = std::make_shared<DistillCommandOptions>();
  auto* command = app.add_subcommand(
      "distill",
      "Find the solver of so many evaluations that best reproduces the model's own samples.\n"
      "Solvers of several NFE are found from the same samples and go to one file.\n\n"
      "Examples:\n  bespoke distill --model model.json --nfe 8 -o run\n"
      "  bespoke distill --model model.json --nfe 2-20 -o run\n"
      "  bespoke distill --model model.json --guidance 0-4 --nfe 8 -o run     for all w there\n"
      "  bespoke distill --model model.json --guidance 2 --network-calls 16 -o run\n"
      "  bespoke distill --model model.json --nfe 1-4 --features features.pt -o run   sharper\n"
      "  bespoke pairs --model model.json --guidance 2 -o pairs\n"
      "  bespoke distill --model model.json --guidance 2 --pairs pairs --nfe 4-20+2 -o run\n"
      "  bespoke distill --model model.json --pairs pairs --nfe 8 --method adam -o adam\n"
      "  bespoke distill ... -o run --resume        go on with a run that was stopped");
  options->add_to(*command);
  command->callback([options] { run_distill(*options); });
}

}  // namespace bespoke
