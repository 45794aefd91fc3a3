#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/text.h"
#include "bespoke/model/fields.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/pair_store.h"
#include "bespoke/report/table.h"
#include "bespoke/solver/solver_file.h"
#include "bespoke/tensor/errors.h"
#include "bespoke/version.h"
#include "commands/commands.h"
#include "commands/pairs_command.h"
#include "options/distill_options.h"
#include "options/model_options.h"
#include "options/space_options.h"
#include "runs/distill_run.h"
#include "runs/invocation.h"
#include "runs/run_folder.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

struct TrainingData {
  Pairs train;
  std::optional<Pairs> validation;  // none: the training pairs measure
  std::optional<Pairs> matching;    // whose statistics are matched, where they are made for it
  nlohmann::json provenance;

  const Pairs& measured() const { return validation ? *validation : train; }
  int64_t reference_evaluations = 0;  // where they were made now; 0 where they were read
};

// The pairs that can be learnt from, on the model's device; the others are named.
Pairs sound_pairs(const Pairs& pairs, Split split, const OpenModel& open) {
  SoundPairs sound = leave_out_broken(pairs, to_string(split));
  for (const int64_t pair : sound.left_out) {
    say("bespoke: {} sample {} left out: the model's own sample is not finite", to_string(split),
        pair);
  }
  return sound.pairs.to(open.device, open.state_dtype());
}

nlohmann::json describe_pairs(const PairPlan& plan, const TrainingData& data) {
  return {{"train", data.train.count()},
          {"validation", data.validation ? data.validation->count() : 0},
          {"tolerance", plan.tolerances.rtol},
          {"seeds", {plan.train.seed, plan.validation.seed}},
          {"conditions", plan.conditions}};
}

// Trajectories that a folder keeps make its pairs as good as those made now.
void add_trajectories(Pairs& pairs, const std::string& folder, const PairOwner& owner,
                      const OpenModel& open, Method method) {
  if (method == Method::adam) return;
  pairs.trajectories = read_trajectories(folder, owner, *open.model, pairs.count());
  if (!pairs.trajectories && method == Method::fit) {
    throw bad_input(
        "{} has no trajectories, which --method fit needs; make pairs with 'bespoke pairs "
        "--trajectories', or leave out --pairs",
        folder);
  }
}

TrainingData read_training_data(const std::string& folder, int64_t most_pairs, Method method,
                                const OpenModel& open) {
  TrainingData data;
  const PairOwner owner = {open.identity(), open.guidance};
  const auto read = [&](Split split, int64_t count) {
    Pairs pairs = read_pairs(folder, split, owner, count);
    if (split == Split::train) add_trajectories(pairs, folder, owner, open, method);
    return sound_pairs(pairs, split, open);
  };
  const PairManifest manifest = read_pair_manifest(folder);
  if (manifest.checksums.empty()) {
    say("bespoke: {} has no checksums, so damage to its files goes unnoticed; the command "
        "that made it adds them",
        folder);
  }
  data.train = read(Split::train, most_pairs);
  if (manifest.plan.validation.count == 0) {
    throw bad_input(
        "{} has no validation pairs, which choose the best solver; make some with "
        "'bespoke pairs --validation N'",
        folder);
  }
  data.validation = read(Split::validation, 0);
  data.provenance = describe_pairs(manifest.plan, data);
  return data;
}

// What is made now: as many as calls pay for where they are limited, for the most evaluations.
MadePairsOptions pairs_wanted(const DistillCommandOptions& options, const OpenModel& open,
                              const std::optional<OpenFeatures>& features) {
  const auto most = static_cast<int>(options.nfes().back());
  ModelDistillOptions plan = distill_options(options, open, features, most, false);
  if (options.most_forwards > 0) {
    plan = within_calls(plan, options.samples);
  } else if (options.samples > 0) {
    plan.training_plan.count = options.samples;
  }
  const Tolerances usual = usual_tolerances(most > 0 ? most : options.network_calls);
  return {options.model.batch,        options.conditions,
          plan.training_plan.count,   plan.validation_plan.count,
          options.matching_samples(), options.tolerance.value_or(usual.rtol),
          plan.fixed_evaluations};
}

// Pairs of a folder, or made now: a few in memory for methods that need no more, or a folder of
// hundreds.
TrainingData load_training_data(const DistillCommandOptions& options, const OpenModel& open,
                                const std::optional<OpenFeatures>& features) {
  const Method method = parse_method(options.method);
  if (!options.pairs.empty()) {
    return read_training_data(options.pairs, options.most_pairs, method, open);
  }
  if (method == Method::adam) {
    const std::string folder = options.output + "/pairs";
    make_default_pairs(open, options.model.batch, options.conditions, options.tolerance, folder);
    return read_training_data(folder, options.most_pairs, method, open);
  }
  const MadePairsOptions wanted = pairs_wanted(options, open, features);
  MadePairs made = make_pairs_now(open, wanted);
  TrainingData data;
  data.reference_evaluations = made.train.evaluations.sum().item<int64_t>();
  data.train = sound_pairs(made.train, Split::train, open);
  if (wanted.validation > 0) {
    data.reference_evaluations += made.validation.evaluations.sum().item<int64_t>();
    data.validation = sound_pairs(made.validation, Split::validation, open);
  }
  data.provenance = describe_pairs(made.plan, data);
  if (wanted.matching > 0) {
    data.matching = made.matching.to(open.device, open.state_dtype());
    data.provenance["matching"] = made.matching.count();
    data.reference_evaluations += made.matching.evaluations.sum().item<int64_t>();
  }
  if (wanted.fixed_evaluations > 0) {
    data.provenance.erase("tolerance");
    data.provenance["evaluations"] = wanted.fixed_evaluations;
  }
  return data;
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
SolverFile begin_solver_file(const DistillCommandOptions& options, const OpenModel& open,
                             const TrainingData& data, bool decoded) {
  SolverFile file;
  file.name = options.family;
  file.field = open.field();
  file.provenance = {{"made_by", "bespoke " BESPOKE_VERSION " distill"},
                     {"command", invocations().back()},
                     {"model", open.identity()},
                     {"pairs", data.provenance},
                     {"reference_evaluations", data.reference_evaluations},
                     {"method", options.method},
                     {"seed", options.seed},
                     {"space", decoded ? "decoded" : "sample"}};
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

// What must be the same for a run to be continued.
nlohmann::json resolved_options(const DistillCommandOptions& options, const OpenModel& open,
                                const std::optional<OpenFeatures>& features,
                                const TrainingData& data) {
  nlohmann::json resolved = {{"model", open.identity()},
                             {"guidance", describe(open.guidance)},
                             {"dtype", options.model.dtype},
                             {"pairs", data.provenance},
                             {"nfe", options.nfe_text()},
                             {"family", options.family},
                             {"init", options.init},
                             {"method", options.method},
                             {"direct", options.direct},
                             {"start_scale", options.start_scale},
                             {"times", options.times},
                             {"adam_decay", options.adam_decay},
                             {"sigma_0", options.sigma_0},
                             {"space", options.space},
                             {"iterations", options.iterations},
                             {"batch", options.batch},
                             {"most_forwards", options.most_forwards},
                             {"seed", options.seed}};
  // Only where it was given, so that runs begun before there was such an option can go on.
  if (options.network_calls > 0) resolved["network_calls"] = options.network_calls;
  for (const auto& [part, mask] : open.card.error_masks) {
    resolved["error_mask"][part] = {mask.condition, mask.inverted, mask.file.string()};
  }
  if (options.match != kAuto) resolved["match"] = options.match;
  if (features) resolved["features"] = features->identity;
  if (options.match_weight > 0) resolved["match_weight"] = options.match_weight;
  return resolved;
}

// Methods that look at one number a sample need more of them than there are parameters.
void warn_of_few_pairs(const TrainingData& data, const ModelDistillOptions& options) {
  if (options.method != Method::adam) return;
  const auto parameters = static_cast<int64_t>(options.family->parameter_count());
  if (data.train.count() >= parameters) return;
  say("bespoke: {} training pairs are few for {} parameters; the solver may not carry over "
      "to other samples",
      data.train.count(), parameters);
}

// Everything a run of the command has at hand.
struct Session {
  const DistillCommandOptions& options;
  const OpenModel& open;
  TrainingData data;
  const std::optional<OpenFeatures>& features;
  ModelPtr model;  // guided
  bool decoded = false;
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
          ? fmt::format("{} {} network calls", session.options.family, settings.network_calls)
          : fmt::format("{} {} NFE", session.options.family, settings.nfe);
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
  settings.team = &team();
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
Standing find_standing(std::optional<DistillRun>& run, const DistillCommandOptions& options,
                       int nfe) {
  const std::string text = from_first([&] {
    run.emplace(distillation_folder(options.output, nfe, options.network_calls));
    const nlohmann::json told = {{"summary", run->finished().value_or(nlohmann::json())},
                                 {"state", to_json_text(run->state())}};
    return json_text(told);
  });
  const auto told = nlohmann::json::parse(text);
  Standing standing;
  if (told["summary"].is_object()) standing.finished = told["summary"];
  standing.state = parse_distill_state(told["state"], options.output);
  return standing;
}

Outcome distill_one(Session& session, int nfe) {
  const auto& options = session.options;
  ModelDistillOptions settings =
      distill_options(options, session.open, session.features, nfe, session.decoded);
  warn_of_few_pairs(session.data, settings);
  std::optional<DistillRun> run;
  const Standing standing = find_standing(run, options, nfe);
  if (standing.finished) return read_outcome(session, nfe, *standing.finished);
  if (session.memory) settings.samples.device_batch = session.memory->device_batch;
  const DistillSummary result =
      run_and_record(session, settings, standing.state, run ? &*run : nullptr);
  Outcome outcome = {to_json(result.provenance()), result.solver};
  // Of all numbers, so there is none where some do not count; and it takes calls of its own.
  if (session.open.card.sample_rate > 0 && session.open.card.error_masks.empty() &&
      options.most_forwards == 0) {
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
void check_gradients(const DistillCommandOptions& options, const OpenModel& open) {
  if (parse_method(options.method) != Method::adam) return;
  if (!open.network || has_gradients(*open.network)) return;
  throw bad_input(
      "--method adam needs gradients, and {} is compiled and has none; use --method fit or direct, "
      "or the model as TorchScript",
      open.name);
}

// Every mistake in the options is found before pairs are made or the folder is touched.
void check_all(const DistillCommandOptions& options, const OpenModel& open,
               const std::optional<OpenFeatures>& features, const std::vector<int64_t>& nfes,
               bool decoded) {
  for (const int64_t nfe : nfes) {
    distill_options(options, open, features, static_cast<int>(nfe), decoded).validate();
  }
  if (features && options.matching_samples() > 0 && options.match_samples <= features->dimension) {
    throw usage_error(
        "the statistics of {} features need more samples than that to match them on; give "
        "--match-samples {} or more, found {}",
        features->dimension, features->dimension + 1, options.match_samples);
  }
  if (options.pairs.empty()) pairs_wanted(options, open, features);
  check_gradients(options, open);
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

std::string measured_on(const TrainingData& data) {
  return data.validation ? fmt::format("{} held-out pairs", data.validation->count())
                         : "the pairs themselves, as few calls hold out none";
}

void run_distill(const DistillCommandOptions& options) {
  const auto nfes = options.nfes();
  options.check_numbers();
  const OpenModel open = open_model(options.model);
  const bool decoded = in_decoded_space(open, options.space);
  std::optional<OpenFeatures> features;
  if (!options.features.file.empty()) features = open_features(options.features, open);
  check_all(options, open, features, nfes, decoded);
  from_first([&] {
    refuse_unless_resumed(options.output, options.resume);
    return "";
  });
  Session session{options,  open,    load_training_data(options, open, features),
                  features, nullptr, decoded};
  session.model = guided(open, session.data.train.conditions);
  session.path = std::filesystem::path(options.output) / (options.family + ".solver.json");
  session.file = begin_solver_file(options, open, session.data, decoded);
  std::optional<FolderLock> lock;
  from_first([&] {
    lock.emplace(claim_folder(
        options.output, resolved_options(options, open, features, session.data), options.resume));
    return "";
  });
  std::vector<Outcome> outcomes;
  for (const int64_t nfe : nfes) {
    outcomes.push_back(distill_one(session, static_cast<int>(nfe)));
  }
  const std::string title = fmt::format(
      "PSNR in dB (peak-to-peak {:g}, {} space) on {}, distilled on {} by {}\n{}",
      value_peak(open, decoded), decoded ? "decoded" : "sample", measured_on(session.data),
      session.data.train.count(), options.method, open.title());
  fmt::print("{}\n", summary_table(outcomes).render(TableFormat::table, title));
  for (const Outcome& outcome : outcomes) {
    if (options.most_forwards > 0) fmt::print("{}\n", spending(outcome));
  }
  fmt::print("in {}\n", session.path.string());
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
