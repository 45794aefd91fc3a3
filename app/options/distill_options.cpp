#include "options/distill_options.h"

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/named_solver.h"
#include "options/condition_options.h"
#include "options/feature_options.h"
#include "options/number_checks.h"
#include "options/option_groups.h"
#include "options/retired_options.h"
#include "options/solver_options.h"
#include "options/space_options.h"

namespace bespoke {

using namespace detail;

void DistillCommandOptions::add_to(CLI::App& command) {
  command.add_option("--nfe", nfe,
                     "evaluations, one or a list such as 4-20+2; default 8, or with "
                     "--network-calls as many as work best");
  command
      .add_option("--network-calls", numbers.network_calls,
                  "with --guidance W: a solver with built-in guidance, of so many network calls "
                  "per sample; its late steps make no unconditional call")
      ->check(positive_number());
  command
      .add_option("--family", numbers.family,
                  "bns (every Non-Stationary solver), bns-history:K (steps made of the last K "
                  "states and velocities), times:METHOD (the times of a method of the catalogue), "
                  "bst or bst-rk2, bst-rk1 (scale-time)")
      ->capture_default_str();
  add_condition_options(command, training.conditions,
                        "conditions of the pairs, where they are made now: as for 'bespoke pairs'");
  command.add_option("--pairs", training.pairs,
                     "folder made by 'bespoke pairs'; default: made now, in memory, for adam in "
                     "the run's folder");
  command
      .add_option(
          "--samples", training.samples,
          "samples of the model to learn from, the first of --pairs or made now; default all "
          "of --pairs, otherwise 96, or as many as --calls pays for")
      ->check(positive_number());
  command.add_option("--tolerance", training.tolerance,
                     "of the reference, where pairs are made now; default 1e-5 up to 12 NFE, 3e-6 "
                     "beyond and for adam");
  command
      .add_option(
          "--init", init,
          fmt::format("solvers to start from, comma-separated, each {}; auto: the best fit to the "
                      "model's trajectories; of several, the best after one measurement goes on",
                      kSolverNames))
      ->capture_default_str();
  command
      .add_option(
          "--method", method,
          "auto (fit, then direct until it is not worth its calls), fit (in closed form from "
          "trajectories), direct (Gauss-Newton by differences, so many iterations) or adam "
          "(the published recipe; needs gradients)")
      ->capture_default_str();
  command
      .add_option("--start-scale", start_scale,
                  "free, or 1 for pipelines that take the noise as it is")
      ->capture_default_str();
  command
      .add_option("--times", times,
                  "free, or as whoever runs the solver rounds them: integer, integer:LEVELS, bf16")
      ->capture_default_str();
  command.add_option(
      "--direct", direct,
      "settings of auto and direct, KEY=VALUE,...: judges, remembered, "
      "smoothing, damping, attempts, difference, time_difference (docs/reference/methods.md)");
  add_retired_option(command, "--adam-decay",
                     "adam's rate decays as published: 5e-4, polynomially");
  add_retired_option(command, "--sigma0",
                     "write the preconditioning in the start's name: --init midpoint@sigma0=2");
  command
      .add_option("--iterations", numbers.iterations,
                  "at most; default 24 (auto, which mostly ends by itself before), 6 (direct) or "
                  "15000 (adam)")
      ->check(positive_number());
  command
      .add_option("--train-batch", numbers.batch,
                  "samples of one iteration; default 4, more where they are small and after an "
                  "iteration that gained nothing, or 40 (adam)")
      ->check(positive_number());
  command
      .add_option("--calls", numbers.most_calls,
                  "calls of the model to spend on each solver at most, counted per sample and all "
                  "in: its own samples, fits, training and measurements; default any")
      ->check(positive_number());
  add_retired_option(command, "--max-pairs",
                     "write --samples, the first training pairs of --pairs");
  command
      .add_option("--match", match,
                  "what solvers are to have in common with the model's samples: samples (each "
                  "sample), both (and the mean and covariance of --features, or of plain numbers "
                  "of a sample), distribution (hardly anything but these), auto (both up to 4 NFE "
                  "where --features are given, otherwise samples)")
      ->capture_default_str();
  add_feature_options(command, features, "what --match takes the statistics of");
  command
      .add_option("--match-samples", numbers.match_samples,
                  "whose statistics are matched, made for it where there is no --pairs; default "
                  "768, or twice as many as features, or as many as --calls pays for")
      ->check(positive_number());
  command
      .add_option(
          "--match-weight", numbers.match_weight,
          "of the mean log error of samples beside the statistics, in parts of the distance "
          "at the start; default for both 0.03 up to 2 NFE, 0.1 at 3 and 0.3 beyond, for "
          "distribution a tenth of that")
      ->check(positive_number());
  command.add_option(
      "--match-groups", numbers.match_groups,
      "condition, such as y, whose classes have their statistics matched each apart; "
      "default: those of all samples together");
  add_retired_option(command, "--seed", "leave it out; a run is the same each time");
  command.add_flag("--resume", resume, "go on with the run in the folder");
  model.add_to(command);
  model.add_utterances_to(command);
  add_space_option(command, space);
  command.add_option("-o,--output", output, "folder of the run and its solvers")->required();
  group_options(
      command, {{"What to make",
                 {"--nfe", "--network-calls", "--family", "--start-scale", "--times", "--space",
                  "--match", "--features", "--features-range", "--features-size", "--match-samples",
                  "--match-weight", "--match-groups", "--output"}},
                {"From what",
                 {"--model", "--guidance", "--guidance-scale", "--guidance-interval", "--cond",
                  "--prompt", "--prompts", "--utterances", "--pairs", "--init"}},
                {"How much to spend",
                 {"--method", "--calls", "--samples", "--tolerance", "--iterations",
                  "--train-batch", "--direct", "--resume"}},
                running_group()});
}

namespace {

// In rising order; 0 alone where --network-calls leaves it open.
std::vector<int> evaluations_of(const DistillCommandOptions& options) {
  if (options.nfe.empty()) {
    return options.numbers.network_calls > 0 ? std::vector<int>{0} : DistillJob().nfes;
  }
  std::vector<int> nfes;
  for (const int64_t nfe : parse_integer_list(options.nfe, "--nfe")) {
    check_nfe(nfe);
    nfes.push_back(static_cast<int>(nfe));
  }
  std::sort(nfes.begin(), nfes.end());
  nfes.erase(std::unique(nfes.begin(), nfes.end()), nfes.end());
  return nfes;
}

bool is_unit_start_scale(const std::string& text) {
  if (text != "1" && text != "free") {
    throw usage_error("--start-scale is free or 1, found '{}'", text);
  }
  return text == "1";
}

// The options that say how statistics are matched, of those typed.
std::vector<std::string> options_of_matching(const DistillCommandOptions& options) {
  std::vector<std::string> typed;
  if (!options.features.file.empty()) typed.emplace_back("--features");
  if (options.numbers.match_samples > 0) typed.emplace_back("--match-samples");
  if (options.numbers.match_weight > 0) typed.emplace_back("--match-weight");
  if (!options.numbers.match_groups.empty()) typed.emplace_back("--match-groups");
  return typed;
}

// Options that would change nothing are mistakes.
void check_matching(const DistillCommandOptions& options, const DistillJob& job) {
  if (!options.training.pairs.empty() && options.numbers.match_samples > 0) {
    throw usage_error("--pairs brings the samples that are matched; leave out --match-samples");
  }
  const auto typed = options_of_matching(options);
  if (typed.empty() || matches_statistics(job, !options.features.file.empty())) return;
  if (job.match == Match::samples) {
    throw usage_error("--match samples looks at no statistics; leave out {}", typed.front());
  }
  throw usage_error(
      "{} would change nothing: unless --match is both or distribution, statistics are matched "
      "only where there are --features and up to 4 evaluations; add --match both, or leave out {}",
      typed.front(), typed.front());
}

// What cannot be asked for beside something else, apart from the job itself.
void check_together(const DistillCommandOptions& options) {
  options.features.validate();
  if (!options.training.pairs.empty() &&
      (!options.training.conditions.empty() || !options.model.utterances.empty())) {
    throw usage_error("--pairs brings its own conditions; leave out --cond and --utterances");
  }
  if (!options.training.pairs.empty() && options.training.tolerance) {
    throw usage_error("--pairs brings its own tolerance; leave out --tolerance");
  }
  if (options.numbers.most_calls > 0 && options.training.tolerance) {
    throw usage_error(
        "--calls decides how its samples are drawn; leave out --tolerance, or make samples with "
        "'bespoke pairs' and give --pairs");
  }
}

}  // namespace

DistillJob DistillCommandOptions::job() const {
  DistillJob job = numbers;
  job.nfes = evaluations_of(*this);
  check_together(*this);
  job.unit_start_scale = is_unit_start_scale(start_scale);
  job.times = parse_time_rounding(times);
  job.of_decoded = is_decoded_space(space);
  job.match = parse_match(match);
  if (init != kAuto) job.starts = split_solver_names(init);
  job.method = parse_method(method);
  job.direct = parse_direct_options(direct);
  check_matching(*this, job);
  job.validate();
  return job;
}

DistillationRequest DistillCommandOptions::request() const {
  DistillationRequest request;
  request.job = job();
  request.training = training;
  request.folder = output;
  request.resume = resume;
  return request;
}

}  // namespace bespoke
