#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/pair_maker.h"
#include "commands/commands.h"
#include "commands/pairs_command.h"
#include "options/condition_options.h"
#include "options/model_options.h"
#include "options/option_groups.h"
#include "runs/shown_execution.h"

namespace bespoke {

using namespace detail;

namespace {

struct PairsCommandOptions {
  ModelOptions model;
  std::vector<std::string> conditions;
  int64_t seed = PairPlan().train.seed;
  std::optional<int64_t> validation_seed;  // none: the next after seed
  double tolerance = Tolerances().rtol;
  PairPlan plan;
  std::optional<std::string> trajectories;  // empty: as many as are usual
  std::string output;
};

constexpr int64_t kUsualTrajectories = 32;  // twice what the fit reads

PairRequest request_of(const PairsCommandOptions& options) {
  if (!options.validation_seed && options.seed == std::numeric_limits<int64_t>::max()) {
    throw usage_error("no seed comes after --seed {}; give a --validation-seed", options.seed);
  }
  PairRequest request;
  request.conditions = options.conditions;
  request.plan = options.plan;
  request.plan.tolerances = {options.tolerance, options.tolerance};
  request.plan.train.seed = options.seed;
  request.plan.validation.seed = options.validation_seed.value_or(options.seed + 1);
  if (options.trajectories) {
    request.plan.trajectories = options.trajectories->empty()
                                    ? std::min(kUsualTrajectories, options.plan.train.count)
                                    : parse_integer(*options.trajectories, "--trajectories");
  }
  return request;
}

void make_and_print_pairs(const PairsCommandOptions& options) {
  const PairRequest request = request_of(options);
  const OpenModel open = open_model(options.model);
  const PairMaker maker(open, request, shown_execution(open, options.model.batch));
  print_pairs(open, maker.plan(), maker.fill(options.output), options.output);
}

}  // namespace

void print_pairs(const OpenModel& open, const PairPlan& plan, const PairReport& report,
                 const std::filesystem::path& folder) {
  const int64_t count = report.manifest.count();
  fmt::print(
      "{}\nconditions: {}\n{} training and {} validation pairs, {:.1f} evaluations each, tolerance "
      "{:g}\n",
      open.title(), plan.conditions, plan.train.count, plan.validation.count,
      static_cast<double>(*report.manifest.evaluations) / static_cast<double>(count),
      plan.tolerances.rtol);
  if (report.made == 0) {
    fmt::print("in {}: finished before, nothing to do\n", folder.string());
  } else {
    fmt::print("in {}: {} of {} made now, {:.2f} s\n", folder.string(), report.made, count,
               report.seconds);
  }
}

void add_pairs_command(CLI::App& app) {
  auto options = std::make_shared<PairsCommandOptions>();
  auto* command = app.add_subcommand(
      "pairs",
      "Make what solvers are distilled from: noise and the model's own samples from it.\n"
      "A run that was stopped is continued by the same command.\n\n"
      "Examples:\n  bespoke pairs --model model.json -o pairs\n"
      "  bespoke pairs --model model.json --guidance 2 --cond y=0-9 --tolerance 1e-6 -o pairs\n"
      "  bespoke pairs --model model.json --trajectories -o pairs   which a fit needs\n"
      "  bespoke pairs --model model.json --guidance 0-4 -o pairs\n"
      "  bespoke pairs --model model.json --cond text=prompts.safetensors --count 100 -o pairs\n"
      "  bespoke pairs --count 64 --validation 64 -o pairs     of an analytic model");
  command->add_option("--count", options->plan.train.count, "training pairs")
      ->capture_default_str();
  command->add_option("--validation", options->plan.validation.count, "validation pairs")
      ->capture_default_str();
  command->add_option("--tolerance", options->tolerance, "of the reference, relative and absolute")
      ->capture_default_str();
  add_condition_options(
      *command, options->conditions,
      "condition NAME=VALUE: 'random', the default, draws a class for each pair; "
      "a list of classes (y=0-9) and the rows of a tensor (text=FILE.safetensors"
      "[:KEY] or FILE.npy) are dealt out in turn, from the first in either split");
  command
      ->add_option("--seed", options->seed,
                   "training pair i starts from noise (seed, i); 0 is left to sample and compare")
      ->capture_default_str();
  command->add_option("--validation-seed", options->validation_seed,
                      "the same for validation pairs; default: seed + 1");
  command
      ->add_option("--shard", options->plan.shard_size,
                   "pairs in a file: what a stopped run loses at most, and the largest batch")
      ->capture_default_str();
  command
      ->add_option("--trajectories", options->trajectories,
                   fmt::format("keep the trajectories of the first training pairs too, so that "
                               "'distill --pairs' can fit; default without a number: {}",
                               kUsualTrajectories))
      ->expected(0, 1)
      ->type_name("N");
  options->model.add_to(*command);
  options->model.add_utterances_to(*command);
  command->add_option("-o,--output", options->output, "folder for the pairs")->required();
  group_options(*command, {{"What to make",
                            {"--count", "--validation", "--tolerance", "--seed",
                             "--validation-seed", "--trajectories", "--shard", "--output"}},
                           {"Of what",
                            {"--model", "--guidance", "--guidance-scale", "--guidance-interval",
                             "--cond", "--prompt", "--prompts", "--utterances"}},
                           running_group()});
  command->callback([options] { make_and_print_pairs(*options); });
}

}  // namespace bespoke
