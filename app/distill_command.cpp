#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "bespoke/core/batches.h"
#include "bespoke/core/error.h"
#include "bespoke/core/progress.h"
#include "bespoke/core/psnr.h"
#include "bespoke/distill/distill.h"
#include "bespoke/distill/screen.h"
#include "bespoke/io/pair_store.h"
#include "bespoke/io/solver_file.h"
#include "bespoke/model/fields.h"
#include "bespoke/report/table.h"
#include "commands.h"
#include "distill_options.h"
#include "distill_run.h"
#include "distill_starts.h"
#include "invocation.h"
#include "model_options.h"
#include "pairs_command.h"
#include "run_folder.h"
#include "space_option.h"

namespace bespoke {

namespace {

struct TrainingData {
  Pairs train, validation;
  nlohmann::json model;  // whose pairs they are
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
    make_default_pairs(open, options.model.batch, options.conditions, folder);
  }
  TrainingData data;
  data.model = identity_of(open);
  const PairOwner owner = {data.model, open.guidance};
  data.train = to_pairs(read_pairs(folder, Split::train, owner, options.most_pairs), open);
  const PairManifest manifest = read_pair_manifest(folder);
  if (manifest.plan.validation.count == 0) {
    throw bad_input(
        "{} has no validation pairs, which choose the best solver; make some with "
        "'bespoke pairs --validation N'",
        folder);
  }
  data.validation = to_pairs(read_pairs(folder, Split::validation, owner), open);
  data.provenance = {{"train", data.train.count()},
                     {"validation", data.validation.count()},
                     {"tolerance", manifest.plan.tolerances.rtol},
                     {"seeds", {manifest.plan.train.seed, manifest.plan.validation.seed}},
                     {"conditions", manifest.plan.conditions}};
  return data;
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
                                 const TrainingData& data, DistillOptions& options, DistillRun& run,
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
  file.field = open.field();
  file.provenance = {{"made_by", "bespoke " BESPOKE_VERSION " distill"},
                     {"command", invocations().back()},
                     {"model", data.model},
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
  auto errors = objective.log_errors(solver, all, &counts);
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
  return {{"model", data.model},
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
  std::optional<ObjectiveOptions> memory = {};  // what the last distillation made do with
};

// Ends the command as a distillation that diverged does, however often it is asked.
[[noreturn]] void report_divergence(const Outcome& outcome) {
  throw Error(ErrorKind::diverged,
              fmt::format("{}; {} has the best solver before that ({:.2f} dB)",
                          outcome.summary.value("message", "the distillation diverged"),
                          outcome.file.string(), outcome.summary.value("validation_psnr", 0.0)));
}

// By a part of the training pairs: enough to tell good from bad.
size_t screen_starts(const Session& session, const ObjectiveOptions& options,
                     const std::vector<NamedStart>& candidates, Counts* counts) {
  constexpr int64_t kPairs = 48;
  const torch::NoGradGuard no_grad;
  std::vector<NsSolver> solvers;
  for (const auto& candidate : candidates) solvers.push_back(candidate.solver);
  Progress progress("choosing a start");
  const Objective objective(session.field, session.data.train, options);
  return nearest_solver(objective, solvers, kPairs, counts,
                        [&](double done) { progress.update(done); });
}

// Those of an earlier part of the run, where there was one, or the nearest now.
std::vector<NamedStart> find_starts(const Session& session, int nfe, const NsSolver* neighbour,
                                    const ObjectiveOptions& objective, DistillRun& run) {
  const ChosenStarts known = run.starts();
  Counts counts;
  const auto choose = [&](const std::vector<NamedStart>& candidates) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto& names = known.names;
      if (std::find(names.begin(), names.end(), candidates[i].name) != names.end()) return i;
    }
    return screen_starts(session, objective, candidates, &counts);
  };
  ChosenStarts chosen;
  chosen.data_deviation =
      known.data_deviation.value_or(session.data.train.x1.square().mean().sqrt().item<double>());
  auto starts = make_starts(session.options,
                            {nfe, session.open.field(), *chosen.data_deviation, neighbour}, choose);
  for (const auto& start : starts) chosen.names.push_back(start.name);
  chosen.screening_forwards = known.screening_forwards + counts.forwards;
  run.store_starts(chosen);
  return starts;
}

Outcome distill_one(Session& session, int nfe, const NsSolver* neighbour) {
  const auto& options = session.options;
  const std::filesystem::path folder(options.output);
  DistillOptions settings = distill_options(options, session.open, nfe, session.decoded);
  warn_of_few_pairs(session.data, *settings.family);
  DistillRun run(distillation_folder(folder, nfe));
  Outcome outcome;
  outcome.nfe = nfe;
  outcome.file = folder / fmt::format("{}-nfe{}.solver.json", options.family, nfe);
  if (const auto summary = run.finished()) {
    outcome.summary = *summary;
    outcome.result.solver = read_solver_file(outcome.file).solver;
    if (outcome.summary.value("ended", "") == to_string(Ending::diverged)) {
      report_divergence(outcome);
    }
    return outcome;
  }
  if (session.memory) {
    settings.objective.memory = session.memory->memory;
    settings.objective.device_batch = session.memory->device_batch;
  }
  const auto starts = find_starts(session, nfe, neighbour, settings.objective, run);
  for (const auto& start : starts) settings.starts.push_back(start.solver);
  outcome.result = run_within_memory(session.field, session.data, settings, run,
                                     fmt::format("{} {} NFE", options.family, nfe));
  session.memory = settings.objective;  // the next one need not find out again
  outcome.summary = summary_json(outcome.result, starts[outcome.result.start].name);
  const int64_t screening = run.starts().screening_forwards;
  if (screening > 0) outcome.summary["screening_forwards"] = screening;
  if (!outcome.result.message.empty()) outcome.summary["message"] = outcome.result.message;
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
  if (outcome.result.ending == Ending::diverged) report_divergence(outcome);
  return outcome;
}

// Every mistake in the options is found before pairs are made or the folder is touched.
void check_all(const DistillCommandOptions& options, const OpenModel& open,
               const std::vector<int64_t>& nfes, bool decoded) {
  for (const int64_t nfe : nfes) {
    DistillOptions settings = distill_options(options, open, static_cast<int>(nfe), decoded);
    const auto any = [](const std::vector<NamedStart>&) { return size_t{0}; };
    for (const auto& start : make_starts(options, {static_cast<int>(nfe), open.field()}, any)) {
      settings.family->parameters(start.solver);
      settings.starts.push_back(start.solver);
    }
    settings.validate();
  }
}

void run_distill(const DistillCommandOptions& options) {
  const auto nfes = options.nfes();
  options.check_numbers();
  const OpenModel open = open_model(options.model);
  const bool decoded = in_decoded_space(open, options.space);
  check_all(options, open, nfes, decoded);
  refuse_unless_resumed(options.output, options.resume);
  Session session{options, open, load_training_data(options, open), nullptr, decoded};
  session.field = std::make_shared<VelocityField>(guided(open, session.data.train.conditions));
  const FolderLock lock =
      claim_folder(options.output, resolved_options(options, open, session.data), options.resume);
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
  options->add_to(*command);
  command->callback([options] { run_distill(*options); });
}

}  // namespace bespoke
