#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/core/progress.h"
#include "bespoke/core/spec.h"
#include "bespoke/core/text.h"
#include "bespoke/distill/distill.h"
#include "bespoke/io/pair_store.h"
#include "bespoke/io/solver_file.h"
#include "bespoke/model/fields.h"
#include "bespoke/report/table.h"
#include "commands.h"
#include "distill_run.h"
#include "model_options.h"
#include "pairs_command.h"
#include "solver_options.h"
#include "space_option.h"

namespace bespoke {

namespace {

constexpr char kAuto[] = "auto";

struct DistillCommandOptions {
  ModelOptions model;
  std::string pairs, output;
  std::string nfe = "8";
  std::string family = "bns", init = kAuto, optimizer = "lm", sigma_0 = "1";
  std::string lm;  // KEY=VALUE,...
  std::string adam_decay = "polynomial", memory = kAuto, space = "sample";
  int64_t iterations = 0, batch = 0, most_forwards = 0, most_pairs = 0;
  int64_t seed = 0;
  bool resume = false;
};

FamilyPtr make_family(const std::string& name, int nfe) {
  if (name == "bns") return bns_family(nfe);
  if (name == "bst-rk1") return bst_family(ScaleTimeBase::rk1, nfe);
  if (name == "bst" || name == "bst-rk2") return bst_family(ScaleTimeBase::rk2, nfe);
  throw Error(ErrorKind::usage, unknown_name("family", name, {"bns", "bst", "bst-rk1", "bst-rk2"}));
}

std::vector<double> sigma_0_values(const std::string& text) {
  if (text == kAuto) return {1, 0.5, 2, 5};
  return {parse_number(text, "--sigma0")};
}

// The catalogue solvers worth starting from, of those that can spend the evaluations.
std::vector<std::string> default_starts(const std::string& family, int nfe) {
  if (family == "bst-rk1") return {"euler"};
  if (family != "bns") return {"midpoint"};
  std::vector<std::string> names = {"euler"};
  if (can_spend("midpoint", nfe)) names.insert(names.begin(), "midpoint");
  return names;
}

// A solver to start from, with what to call it.
struct NamedStart {
  std::string name;
  NsSolver solver;
};

// `neighbour` is the result for fewer evaluations, if there is one: padded, it is as good there.
std::vector<NamedStart> make_starts(const DistillCommandOptions& options, int nfe,
                                    const FieldDescription& field, const NsSolver* neighbour) {
  const bool automatic = options.init == kAuto;
  const auto names = automatic ? default_starts(options.family, nfe) : split(options.init, ',');
  std::vector<NamedStart> starts;
  for (const auto& name : names) {
    for (const double sigma_0 : sigma_0_values(options.sigma_0)) {
      SolverOptions solver_options;
      solver_options.sigma_0 = sigma_0;
      if (is_solver_file(name)) solver_options.sigma_0 = 1;
      const std::string label =
          solver_options.sigma_0 == 1 ? name : fmt::format("{} (sigma_0 {})", name, sigma_0);
      starts.push_back({label, resolve_solver(name, nfe, field, solver_options).solver});
      if (is_solver_file(name)) break;
    }
  }
  if (automatic && neighbour != nullptr && options.family == "bns") {
    starts.push_back({fmt::format("{} NFE, padded", neighbour->nfe()), pad(*neighbour, nfe)});
  }
  return starts;
}

struct TrainingData {
  Pairs train, validation;
  nlohmann::json provenance;
};

Pairs to_pairs(const PairSet& set, const OpenModel& open) {
  Pairs pairs;
  pairs.x0 = set.x0.to(open.device, open.state_dtype());
  pairs.x1 = set.x1.to(open.device, open.state_dtype());
  pairs.conditions = set.conditions;
  return pairs;
}

TrainingData load_training_data(const DistillCommandOptions& options, const OpenModel& open) {
  std::string folder = options.pairs;
  if (folder.empty()) {
    folder = options.output + "/pairs";
    make_default_pairs(open, options.model.batch, folder);
  }
  const PairOwner owner = {open.identity(), open.guidance};
  TrainingData data;
  data.train = to_pairs(read_pairs(folder, Split::train, owner, options.most_pairs), open);
  data.validation = to_pairs(read_pairs(folder, Split::validation, owner), open);
  const PairManifest manifest = read_pair_manifest(folder);
  data.provenance = {{"train", data.train.count()},
                     {"validation", data.validation.count()},
                     {"tolerance", manifest.plan.tolerances.rtol},
                     {"seeds", {manifest.plan.train.seed, manifest.plan.validation.seed}},
                     {"conditions", manifest.plan.conditions}};
  return data;
}

LmOptions parse_lm(const std::string& text) {
  LmOptions options;
  const Spec spec = Spec::parse(text.empty() ? "lm" : "lm:" + text);
  spec.allow_only({"probes", "averaging", "smoothing", "damping", "shrink", "lookahead"});
  options.probes = static_cast<int>(spec.integer("probes", options.probes));
  options.averaging = spec.number("averaging", options.averaging);
  options.smoothing = spec.number("smoothing", options.smoothing);
  options.damping = spec.number("damping", options.damping);
  options.shrink = spec.number("shrink", options.shrink);
  options.lookahead = spec.number("lookahead", options.lookahead);
  return options;
}

DistillOptions distill_options(const DistillCommandOptions& options, const OpenModel& open, int nfe,
                               bool decoded) {
  DistillOptions result;
  result.family = make_family(options.family, nfe);
  result.optimizer = parse_optimizer(options.optimizer);
  result.iterations = options.iterations;
  result.most_forwards = options.most_forwards;
  result.seed = static_cast<uint64_t>(options.seed);
  if (options.adam_decay == "cosine") {
    result.adam.decay = RateDecay::cosine;
    result.adam.rate = 1e-4;
  } else if (options.adam_decay != "polynomial") {
    throw Error(ErrorKind::usage,
                unknown_name("decay", options.adam_decay, {"polynomial", "cosine"}));
  }
  result.lm = parse_lm(options.lm);
  if (options.batch > 0) result.lm.batch = result.adam.batch = options.batch;
  result.objective.device_batch = options.model.batch;
  result.objective.peak = value_peak(open, decoded);
  if (decoded) {
    result.objective.decode = [&open](const torch::Tensor& x) { return open.decoder->decode(x); };
  }
  const bool high = options.memory == "high" || (options.memory == kAuto && open.device.is_cuda());
  if (!high && options.memory != "low" && options.memory != kAuto) {
    throw Error(ErrorKind::usage, unknown_name("memory", options.memory, {"auto", "low", "high"}));
  }
  result.objective.memory = high ? Memory::high : Memory::low;
  return result;
}

// One distillation, from its start or checkpoint to its end.
struct Outcome {
  int nfe;
  nlohmann::json summary;
  std::filesystem::path file;
  DistillSummary result;
};

std::string describe_progress(const DistillProgress& progress) {
  return fmt::format(
      "iteration {}, loss {:.3f}, validation {:.2f} dB, best {:.2f} dB, {:.0f}k "
      "forwards",
      progress.iteration, progress.loss, progress.validation_psnr, progress.best_psnr,
      static_cast<double>(progress.training.forwards) / 1000);
}

void need_less_memory(ObjectiveOptions& options) {
  if (options.memory == Memory::high) {
    options.memory = Memory::low;
    fmt::print(stderr, "bespoke: out of memory, going on with --memory low\n");
  } else if (options.device_batch > 1) {
    options.device_batch /= 2;
    fmt::print(stderr, "bespoke: out of memory, going on with --batch {}\n", options.device_batch);
  } else {
    throw Error(ErrorKind::device,
                "out of memory even with --memory low and --batch 1; use --dtype bf16 or a device "
                "with more memory");
  }
}

// Runs it, with less memory again where that runs out.
DistillSummary run_within_memory(const std::shared_ptr<const Field>& field,
                                 const TrainingData& data, DistillOptions options, DistillRun& run,
                                 const std::string& label) {
  DistillState latest = run.state();
  const auto planned = static_cast<double>(options.most_iterations());
  while (true) {
    Progress progress(label);
    options.on_iteration = [&](const DistillProgress& info, const DistillState& state) {
      latest = state;
      run.record(info, state);
      progress.show(static_cast<double>(info.iteration) / planned, describe_progress(info));
      return interrupt_requested() ? Verdict::stop : Verdict::go_on;
    };
    try {
      const DistillSummary summary = distill(field, data.train, data.validation, options, latest);
      run.store(latest);
      return summary;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      need_less_memory(options.objective);
    }
  }
}

nlohmann::json summary_json(const DistillSummary& result, const std::string& start) {
  return {{"start", start},
          {"initial_psnr", result.initial_psnr},
          {"validation_psnr", result.validation_psnr},
          {"training_psnr", result.training_psnr},
          {"iterations", result.iterations},
          {"forwards", result.training.forwards},
          {"vjps", result.training.vjps},
          {"validation_forwards", result.validation.forwards},
          {"seconds", result.seconds},
          {"ended", to_string(result.ending)}};
}

SolverFile to_solver_file(const DistillCommandOptions& options, const OpenModel& open,
                          const TrainingData& data, const DistillSummary& result,
                          const nlohmann::json& summary, bool decoded) {
  SolverFile file;
  file.name = fmt::format("{}-nfe{}", options.family, result.solver.nfe());
  file.solver = result.solver;
  file.field = {open.card.prediction, open.card.schedule, open.guidance};
  file.provenance = {{"made_by", "bespoke " BESPOKE_VERSION " distill"},
                     {"model", open.identity()},
                     {"pairs", data.provenance},
                     {"optimizer", options.optimizer},
                     {"seed", options.seed},
                     {"space", decoded ? "decoded" : "sample"}};
  file.provenance.update(summary);
  return file;
}

// The mean over the validation pairs of |x(1)|^2 / |r|^2 in decibels, how sound is measured.
double validation_snr(const std::shared_ptr<const Field>& field, const Pairs& pairs,
                      const ObjectiveOptions& options, const NsSolver& solver) {
  const torch::NoGradGuard no_grad;
  const Objective objective(field, pairs, options);
  std::vector<int64_t> all(static_cast<size_t>(pairs.count()));
  std::iota(all.begin(), all.end(), 0);
  Counts counts;
  const auto log_errors = objective.log_errors(solver, all, &counts);
  const torch::Tensor target = options.decode ? options.decode(pairs.x1) : pairs.x1;
  const torch::Tensor powers =
      target.to(torch::kCPU, torch::kDouble).pow(2).reshape({pairs.count(), -1}).mean(1);
  double sum = 0;
  for (size_t i = 0; i < log_errors.size(); ++i) {
    const double power = powers[static_cast<int64_t>(i)].item<double>();
    sum += 10 * (std::log10(power) - log_errors[i] / std::log(10.0));
  }
  return sum / static_cast<double>(log_errors.size());
}

Table summary_table(const std::vector<Outcome>& outcomes) {
  const bool audio = outcomes.front().summary.contains("validation_snr");
  std::vector<Table::Column> columns = {{"NFE", true},
                                        {"start"},
                                        {"start dB", true, 2},
                                        {"best dB", true, 2},
                                        {"train dB", true, 2},
                                        {"iterations", true},
                                        {"forwards", true},
                                        {"VJPs", true},
                                        {"seconds", true, 1},
                                        {"ended"},
                                        {"file"}};
  if (audio) columns.insert(columns.begin() + 4, {"best SNR dB", true, 2});
  Table table(columns);
  for (const auto& outcome : outcomes) {
    const auto& s = outcome.summary;
    std::vector<nlohmann::json> row = {
        outcome.nfe,        s["start"],      s["initial_psnr"],    s["validation_psnr"],
        s["training_psnr"], s["iterations"], s["forwards"],        s["vjps"],
        s["seconds"],       s["ended"],      outcome.file.string()};
    if (audio) row.insert(row.begin() + 4, s["validation_snr"]);
    table.add_row(row);
  }
  return table;
}

// What must be the same for a run to be continued.
nlohmann::json resolved_options(const DistillCommandOptions& options, const OpenModel& open,
                                const TrainingData& data) {
  return {{"model", open.identity()},
          {"guidance", describe(open.guidance)},
          {"dtype", options.model.dtype},
          {"pairs", data.provenance},
          {"nfe", options.nfe},
          {"family", options.family},
          {"init", options.init},
          {"optimizer", options.optimizer},
          {"lm", options.lm},
          {"adam_decay", options.adam_decay},
          {"sigma_0", options.sigma_0},
          {"space", options.space},
          {"iterations", options.iterations},
          {"batch", options.batch},
          {"most_forwards", options.most_forwards},
          {"seed", options.seed}};
}

// A new folder is claimed; one of another run is refused, and so is one not asked to be resumed.
void claim_folder(const DistillCommandOptions& options, const nlohmann::json& resolved) {
  make_folders(options.output);
  const auto path = std::filesystem::path(options.output) / "options.json";
  if (!std::filesystem::exists(path)) {
    write_file_atomically(path, resolved.dump(2) + "\n");
    return;
  }
  if (!options.resume) {
    throw usage_error("{} holds a distillation; add --resume to continue it or choose another -o",
                      options.output);
  }
  const auto found = nlohmann::json::parse(read_file(path));
  for (const auto& [key, value] : resolved.items()) {
    if (found.value(key, nlohmann::json()) != value) {
      throw bad_input("{} was begun with {} = {}, this run has {}; give the same options",
                      options.output, key, found.value(key, nlohmann::json()).dump(), value.dump());
    }
  }
}

void warn_of_few_pairs(const TrainingData& data, const Family& family) {
  const auto parameters = static_cast<int64_t>(family.parameter_count());
  if (data.train.count() >= parameters) return;
  fmt::print(stderr,
             "bespoke: {} training pairs are few for {} parameters; the solver may not carry over "
             "to other samples\n",
             data.train.count(), parameters);
}

// Everything a run of the command has at hand.
struct Session {
  const DistillCommandOptions& options;
  const OpenModel& open;
  TrainingData data;
  std::shared_ptr<const Field> field;
  bool decoded;
};

Outcome distill_one(const Session& session, int nfe, const NsSolver* neighbour) {
  const auto& options = session.options;
  const std::filesystem::path folder(options.output);
  DistillOptions settings = distill_options(options, session.open, nfe, session.decoded);
  warn_of_few_pairs(session.data, *settings.family);
  const FieldDescription field = {session.open.card.prediction, session.open.card.schedule,
                                  session.open.guidance};
  const auto starts = make_starts(options, nfe, field, neighbour);
  for (const auto& start : starts) settings.starts.push_back(start.solver);

  DistillRun run(folder / fmt::format("nfe-{:02}", nfe));
  Outcome outcome;
  outcome.nfe = nfe;
  outcome.file = folder / fmt::format("{}-nfe{}.solver.json", options.family, nfe);
  if (const auto summary = run.finished()) {
    outcome.summary = *summary;
    outcome.result.solver = read_solver_file(outcome.file).solver;
    return outcome;
  }
  outcome.result = run_within_memory(session.field, session.data, settings, run,
                                     fmt::format("{} {} NFE", options.family, nfe));
  outcome.summary = summary_json(outcome.result, starts[outcome.result.start].name);
  if (session.open.card.sample_rate > 0) {
    outcome.summary["validation_snr"] = validation_snr(session.field, session.data.validation,
                                                       settings.objective, outcome.result.solver);
  }
  write_solver_file(outcome.file, to_solver_file(options, session.open, session.data,
                                                 outcome.result, outcome.summary, session.decoded));
  if (outcome.result.ending == Ending::stopped) {
    throw Error(
        ErrorKind::interrupted,
        fmt::format("interrupted; {} has the best so far ({:.2f} dB), add --resume to go on",
                    outcome.file.string(), outcome.result.validation_psnr));
  }
  run.finish(outcome.summary);
  if (outcome.result.ending == Ending::diverged) {
    throw Error(
        ErrorKind::diverged,
        fmt::format("{}; {} has the best solver before that ({:.2f} dB)", outcome.result.message,
                    outcome.file.string(), outcome.result.validation_psnr));
  }
  return outcome;
}

std::vector<int64_t> checked_nfes(const DistillCommandOptions& options) {
  auto nfes = parse_integer_list(options.nfe, "--nfe");
  for (const int64_t nfe : nfes) check_nfe(nfe);
  std::sort(nfes.begin(), nfes.end());
  return nfes;
}

// Every mistake in the options is found before pairs are made or the folder is touched.
void check_all(const DistillCommandOptions& options, const OpenModel& open,
               const std::vector<int64_t>& nfes, bool decoded) {
  const FieldDescription field = {open.card.prediction, open.card.schedule, open.guidance};
  for (const int64_t nfe : nfes) {
    const DistillOptions settings = distill_options(options, open, static_cast<int>(nfe), decoded);
    for (const auto& start : make_starts(options, static_cast<int>(nfe), field, nullptr)) {
      settings.family->parameters(start.solver);
    }
  }
}

void check_numbers(const DistillCommandOptions& options) {
  if (options.iterations < 0 || options.batch < 0 || options.most_forwards < 0 ||
      options.most_pairs < 0 || options.seed < 0) {
    throw usage_error(
        "--iterations, --train-batch, --max-forwards, --max-pairs and --seed must "
        "not be negative");
  }
}

void run_distill(const DistillCommandOptions& options) {
  const auto nfes = checked_nfes(options);
  check_numbers(options);
  const OpenModel open = open_model(options.model);
  const bool decoded = in_decoded_space(open, options.space);
  check_all(options, open, nfes, decoded);
  Session session{options, open, load_training_data(options, open), nullptr, decoded};
  session.field = std::make_shared<VelocityField>(guided(open, session.data.train.conditions));
  claim_folder(options, resolved_options(options, open, session.data));
  std::vector<Outcome> outcomes;
  for (const int64_t nfe : nfes) {
    const NsSolver* neighbour = outcomes.empty() ? nullptr : &outcomes.back().result.solver;
    outcomes.push_back(distill_one(session, static_cast<int>(nfe), neighbour));
  }
  const std::string title = fmt::format(
      "PSNR in dB (peak-to-peak {:g}, {} space) on {} held-out pairs, distilled on {} by {}\n{}",
      value_peak(open, decoded), decoded ? "decoded" : "sample", session.data.validation.count(),
      session.data.train.count(), options.optimizer, open.title());
  fmt::print("{}", summary_table(outcomes).render(TableFormat::table, title));
}

}  // namespace

void add_distill_command(CLI::App& app) {
  auto options = std::make_shared<DistillCommandOptions>();
  auto* command = app.add_subcommand(
      "distill",
      "Find the solver of so many evaluations that best reproduces the model's own samples.\n\n"
      "Examples:\n  bespoke distill --model model.json --nfe 8 -o run\n"
      "  bespoke pairs --model model.json --guidance 2 -o pairs\n"
      "  bespoke distill --model model.json --guidance 2 --pairs pairs --nfe 4-20+2 -o run\n"
      "  bespoke distill --model model.json --pairs pairs --nfe 8 --optimizer adam -o adam\n"
      "  bespoke distill ... -o run --resume        go on with a run that was stopped");
  command->add_option("--pairs", options->pairs,
                      "folder made by 'bespoke pairs'; default: made now, in the run's folder");
  command->add_option("--nfe", options->nfe, "evaluations, one or a list such as 4-20+2")
      ->capture_default_str();
  command
      ->add_option("--family", options->family,
                   "bns (every Non-Stationary solver), bst or bst-rk2, bst-rk1 (scale-time)")
      ->capture_default_str();
  command
      ->add_option("--init", options->init,
                   "solvers to start from, names or files, comma-separated; auto: Euler and "
                   "Midpoint, and the result for fewer evaluations, the best after a short trial")
      ->capture_default_str();
  command->add_option("--optimizer", options->optimizer, "lm (Levenberg-Marquardt) or adam")
      ->capture_default_str();
  command->add_option(
      "--lm", options->lm,
      "settings of lm, KEY=VALUE,...: averaging, smoothing, damping, shrink, lookahead, probes "
      "(docs/distillation.md)");
  command
      ->add_option("--adam-decay", options->adam_decay,
                   "polynomial (rate 5e-4) or cosine (rate 1e-4)")
      ->capture_default_str();
  command
      ->add_option("--sigma0", options->sigma_0,
                   "sigma_0 preconditioning of the start, a number or auto, which tries a few")
      ->capture_default_str();
  command->add_option("--iterations", options->iterations,
                      "at most; default 60 (lm, ends by itself before) or 15000 (adam)");
  command->add_option("--train-batch", options->batch,
                      "pairs of one iteration; default 128 (lm) or 40 (adam)");
  command->add_option("--max-forwards", options->most_forwards,
                      "model evaluations to spend on training, counted per sample; default any");
  command->add_option("--max-pairs", options->most_pairs, "use only the first training pairs");
  command
      ->add_option("--memory", options->memory,
                   "high keeps the graphs of all steps, low rebuilds them one at a time; auto: "
                   "high on CUDA")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of batches and probes")->capture_default_str();
  command->add_flag("--resume", options->resume, "go on with the run in the folder");
  options->model.add_to(*command);
  add_space_option(*command, options->space);
  command->add_option("-o,--output", options->output, "folder of the run and its solvers")
      ->required();
  command->callback([options] { run_distill(*options); });
}

}  // namespace bespoke
