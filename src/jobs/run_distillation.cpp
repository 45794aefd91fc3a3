#include "bespoke/jobs/run_distillation.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/psnr.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/distill_run.h"
#include "bespoke/jobs/run_folder.h"
#include "bespoke/jobs/training_pairs.h"
#include "bespoke/model/fields.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/tensor_features.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/solver/solver_file.h"
#include "bespoke/tensor/errors.h"
#include "bespoke/version.h"

namespace bespoke {

using namespace detail;

namespace {

bool speaks(const Execution& execution) { return execution.team->rank() == 0; }

// What the first process of a team finds out, told to all. Where it fails, all fail.
std::string told_by_first(const Execution& execution, const std::function<std::string()>& work) {
  return exchange_work(*execution.team, [&] { return speaks(execution) ? work() : ""; }).front();
}

MatchedFeatures matched(const std::optional<OpenFeatures>& features) {
  return features ? MatchedFeatures{features->extractor, features->dimension} : MatchedFeatures{};
}

// Whether samples are made to match the statistics of: a folder of pairs brings them.
bool makes_matching_samples(const DistillationRequest& request) {
  return request.training.pairs.empty() &&
         matches_statistics(request.job, request.features.has_value());
}

// What is made now: as many as calls pay for where they are limited, for the most evaluations.
PairRequest pairs_wanted(const DistillationRequest& request, const OpenModel& open,
                         const Execution& execution) {
  const DistillJob& job = request.job;
  const int64_t samples = request.training.samples;
  const int most = job.nfes.back();
  DistillJob of_samples = job;  // what is decoded costs no calls
  of_samples.of_decoded = false;
  ModelDistillOptions plan =
      distill_options(of_samples, open, matched(request.features), most, execution);
  if (job.most_calls > 0) {
    plan = within_calls(plan, samples);
  } else if (samples > 0) {
    plan.training_plan.count = samples;
  }
  const Tolerances usual = usual_tolerances(most > 0 ? most : job.network_calls);
  const double tolerance = request.training.tolerance.value_or(usual.rtol);
  PairRequest wanted;
  wanted.conditions = request.training.conditions;
  wanted.plan.tolerances = {tolerance, tolerance};
  wanted.plan.train.count = plan.training_plan.count;
  wanted.plan.validation.count = plan.validation_plan.count;
  wanted.matching = makes_matching_samples(request) ? plan.match_samples : 0;
  wanted.matching_tolerances = plan.match_tolerances;
  wanted.fixed_evaluations = plan.fixed_evaluations;
  return wanted;
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

void check_request(const DistillationRequest& request, const OpenModel& open,
                   const Execution& execution) {
  const DistillJob& job = request.job;
  job.validate();
  check_decoded_space(open, job.of_decoded);
  for (const int nfe : job.nfes) {
    distill_options(job, open, matched(request.features), nfe, execution).validate();
  }
  const int64_t given = job.match_samples;
  if (request.features && makes_matching_samples(request) && given > 0 &&
      given <= request.features->dimension) {
    throw usage_error(
        "the statistics of {} features need more samples than that to match them on; give "
        "--match-samples {} or more, found {}",
        request.features->dimension, request.features->dimension + 1, given);
  }
  if (request.training.pairs.empty()) pairs_wanted(request, open, execution);
  check_gradients(job, open);
}

// What 'bespoke pairs' makes with these conditions, and this tolerance where one is given.
void fill_with_usual_pairs(const TrainingChoice& training, const OpenModel& open,
                           const Execution& execution, const std::filesystem::path& folder,
                           const DistillationEvents& events) {
  PairRequest wanted;
  wanted.conditions = training.conditions;
  if (training.tolerance) wanted.plan.tolerances = {*training.tolerance, *training.tolerance};
  const PairMaker maker(open, wanted, execution);
  const PairReport report = maker.fill(folder);
  if (events.on_pairs) events.on_pairs(maker.plan(), report, folder);
}

// Pairs of a folder, or made now: a few in memory for methods that need no more, or a folder of
// hundreds.
TrainingPairs load_training_pairs(const DistillationRequest& request, const OpenModel& open,
                                  const Execution& execution, const DistillationEvents& events) {
  const TrainingChoice& training = request.training;
  std::string folder = training.pairs;
  if (folder.empty() && request.job.method != Method::adam) {
    return make_training_pairs(open, pairs_wanted(request, open, execution), execution);
  }
  if (folder.empty()) {
    folder = (request.folder / "pairs").string();
    fill_with_usual_pairs(training, open, execution, folder, events);
  }
  return read_training_pairs(folder, training.samples, request.job.method, open, execution);
}

// The file of the run, with no solver yet.
SolverFile begin_solver_file(const DistillationRequest& request, const OpenModel& open,
                             const TrainingPairs& data) {
  const DistillJob& job = request.job;
  SolverFile file;
  file.name = job.family;
  file.field = open.field();
  file.provenance = {{"made_by", "bespoke " BESPOKE_VERSION " distill"},
                     {"command", request.command},
                     {"model", open.identity()},
                     {"pairs", data.provenance},
                     {"reference_evaluations", data.reference_evaluations},
                     {"method", to_string(job.method)},
                     {"space", job.of_decoded ? "decoded" : "sample"}};
  return file;
}

// What must be the same for a run to be continued: the job, and what it is done on.
nlohmann::json what_decides(const DistillationRequest& request, const OpenModel& open,
                            const TrainingPairs& data) {
  nlohmann::json decisive = to_json(request.job);
  decisive["model"] = open.identity();
  decisive["guidance"] = describe(open.guidance);
  decisive["precision"] = open.precision;
  decisive["pairs"] = data.provenance;
  for (const auto& [part, mask] : open.card.error_masks) {
    decisive["error_mask"][part] = {mask.condition, mask.inverted, mask.file.string()};
  }
  if (request.features) decisive["features"] = request.features->identity;
  return decisive;
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

// How much of a distillation is done: of its iterations, or of its calls where these end it before.
double done_of(const ModelDistillOptions& settings, const DistillProgress& info) {
  const double iterations =
      static_cast<double>(info.iteration) / static_cast<double>(settings.most_iterations());
  if (settings.most_calls == 0) return iterations;
  const int64_t spent =
      settings.reference_forwards + info.training.forwards + info.validation.forwards;
  return std::max(iterations,
                  static_cast<double>(spent) / static_cast<double>(settings.most_calls));
}

// Some systems take no colon in names of files, as families like times:METHOD have one.
std::string file_stem(std::string family) {
  std::replace(family.begin(), family.end(), ':', '-');
  return family;
}

// Where one distillation stands.
struct Standing {
  std::optional<nlohmann::json> finished;  // its summary
  DistillState state;
};

// All distillations of one request, one after the other.
class Distillations {
 public:
  Distillations(const DistillationRequest& request, const OpenModel& open,
                const Execution& execution, const DistillationEvents& events)
      : request_(request),
        job_(request.job),
        open_(open),
        execution_(execution),
        events_(events),
        data_(load_training_pairs(request, open, execution, events)),
        model_(guided(open, data_.train.conditions)),
        path_(request.folder / (file_stem(job_.family) + ".solver.json")),
        file_(begin_solver_file(request, open, data_)) {
    told_by_first(execution_, [&] {
      lock_.emplace(
          claim_folder(request_.folder, what_decides(request_, open_, data_), request_.resume));
      return "";
    });
  }

  DistillationResult run() {
    DistillationResult result;
    for (const int nfe : job_.nfes) result.solvers.push_back(distil(nfe));
    result.file = path_;
    result.training_pairs = data_.train.count();
    if (data_.validation) result.validation_pairs = data_.validation->count();
    return result;
  }

 private:
  DistilledSolver distil(int nfe) {
    ModelDistillOptions settings =
        distill_options(job_, open_, matched(request_.features), nfe, execution_);
    note_few_pairs(settings);
    std::optional<DistillRun> run;
    const Standing standing = find_standing(run, nfe);
    if (standing.finished) return read_outcome(nfe, *standing.finished);
    if (memory_) settings.samples.device_batch = memory_->device_batch;
    const DistillSummary result = run_and_record(settings, standing.state, run ? &*run : nullptr);
    DistilledSolver outcome = {to_json(result.provenance()), result.solver};
    // Of all numbers, so there is none where some do not count; and it takes calls of its own.
    if (open_.card.sample_rate > 0 && open_.card.error_masks.empty() && job_.most_calls == 0) {
      outcome.summary["validation_snr"] = validation_snr(
          model_, data_.measured(), memory_.value_or(settings.samples), result.solver);
    }
    keep(outcome);
    if (result.ending == Ending::stopped) report_interruption(result);
    if (run) run->finish(outcome.summary);
    if (result.ending == Ending::diverged) report_divergence(outcome);
    return outcome;
  }

  // Methods that look at one number a sample need more of them than there are parameters.
  void note_few_pairs(const ModelDistillOptions& settings) const {
    if (settings.method != Method::adam) return;
    const auto parameters = static_cast<int64_t>(settings.family->parameter_count());
    if (data_.train.count() >= parameters) return;
    execution_.note(
        fmt::format("{} training pairs are few for {} parameters; the solver may not carry over to "
                    "other samples",
                    data_.train.count(), parameters));
  }

  // As its folder says, which the first process alone opens, as `run`.
  Standing find_standing(std::optional<DistillRun>& run, int nfe) const {
    const std::string text = told_by_first(execution_, [&] {
      run.emplace(distillation_folder(request_.folder, nfe, job_.network_calls));
      const nlohmann::json told = {{"summary", run->finished().value_or(nlohmann::json())},
                                   {"state", to_json_text(run->state())}};
      return json_text(told);
    });
    const auto told = nlohmann::json::parse(text);
    Standing standing;
    if (told["summary"].is_object()) standing.finished = told["summary"];
    standing.state = parse_distill_state(told["state"], request_.folder.string());
    return standing;
  }

  // A distillation that ended in an earlier run. Its solver is in the file that run left.
  DistilledSolver read_outcome(int nfe, const nlohmann::json& summary) {
    const SolverFile earlier = read_solver_file(path_);
    DistilledSolver outcome = {summary, earlier.at(nfe)};
    file_.put(earlier.only(nfe).solvers.front());
    if (summary.value("ended", "") == to_string(Ending::diverged)) report_divergence(outcome);
    return outcome;
  }

  // Tells what goes on, and stores where it has got to where there is a run to store it in.
  DistillSummary run_and_record(ModelDistillOptions& settings, DistillState latest,
                                DistillRun* run) {
    const std::string what =
        settings.network_calls > 0
            ? fmt::format("{} {} network calls", job_.family, settings.network_calls)
            : fmt::format("{} {} NFE", job_.family, settings.nfe);
    settings.on_progress = execution_.on_progress;
    settings.on_iteration = [&](const DistillProgress& info, const DistillState& state) {
      latest = state;
      if (run != nullptr) run->record(info, state);
      if (!events_.on_iteration) return Verdict::go_on;
      return events_.on_iteration(what, info, done_of(settings, info));
    };
    settings.on_start = [&](const StartState& start, const Counts& screening,
                            const SolverShape& shape) {
      if (events_.on_start) events_.on_start(what, start, screening, shape);
    };
    // What the next distillation need not find out again.
    settings.on_less_memory = [&](const TensorSamplesOptions& left) {
      execution_.note(fmt::format("out of memory, going on with --batch {}", left.device_batch));
      memory_ = left;
    };
    settings.training = data_.train;
    settings.validation = data_.validation;
    if (!data_.validation) settings.validation_plan.count = 0;
    settings.reference_forwards =
        data_.reference_evaluations * (settings.network_calls > 0 ? 2 : 1);
    // A folder of pairs is all there is: its training pairs are matched too.
    settings.matching = data_.matching ? data_.matching : data_.train;
    DistillSummary summary = distill(model_, settings, latest);
    if (run != nullptr) run->store(latest);
    return summary;
  }

  void keep(const DistilledSolver& outcome) {
    file_.put({outcome.solver, outcome.summary});
    if (speaks(execution_)) write_solver_file(path_, file_);
  }

  [[noreturn]] void report_interruption(const DistillSummary& result) const {
    throw Error(
        ErrorKind::interrupted,
        fmt::format("interrupted; {} has the best so far ({:.2f} dB at {}), add --resume to go on",
                    path_.string(), result.validation_psnr,
                    evaluations_text(result.solver.shape())));
  }

  // Ends as a distillation that diverged does, however often it is asked.
  [[noreturn]] void report_divergence(const DistilledSolver& outcome) const {
    throw Error(ErrorKind::diverged,
                fmt::format("{}; {} has the best solver before that ({:.2f} dB)",
                            outcome.summary.value("message", "the distillation diverged"),
                            path_.string(), outcome.summary.value("validation_psnr", 0.0)));
  }

  const DistillationRequest& request_;
  const DistillJob& job_;
  const OpenModel& open_;
  const Execution& execution_;
  const DistillationEvents& events_;
  const TrainingPairs data_;
  const ModelPtr model_;                        // guided
  const std::filesystem::path path_;            // of the file that all solvers go to
  SolverFile file_;                             // as it is written there once a solver is found
  std::optional<FolderLock> lock_;              // of the folder
  std::optional<TensorSamplesOptions> memory_;  // what the last distillation made do with
};

}  // namespace

std::string evaluations_text(const SolverShape& shape) {
  if (!shape.guides_itself()) return fmt::format("{} NFE", shape.nfe);
  return fmt::format("{} NFE ({} network calls, the first {} steps guided)", shape.nfe,
                     shape.calls(), shape.guided.size());
}

DistillationResult run_distillation(const DistillationRequest& request, const OpenModel& open,
                                    const Execution& execution, const DistillationEvents& events) {
  check_request(request, open, execution);
  told_by_first(execution, [&] {
    refuse_unless_resumed(request.folder, request.resume);
    return "";
  });
  return Distillations(request, open, execution, events).run();
}

}  // namespace bespoke
