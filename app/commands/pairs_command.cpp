#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/random.h"
#include "bespoke/base/sha256.h"
#include "bespoke/io/tensor_file.h"
#include "bespoke/measure/card_check.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/recipe/pair_store.h"
#include "bespoke/run/multistep.h"
#include "commands/commands.h"
#include "commands/pairs_command.h"
#include "options/condition_options.h"
#include "options/model_options.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kRandomClasses[] = "random";
constexpr uint32_t kClassStream = 0x636C6173;  // the first; a stream for each condition

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

// One condition of all pairs: entries of `rows`, drawn where there are draws, otherwise in turn.
struct ConditionDeal {
  torch::Tensor rows;
  std::map<Split, torch::Tensor> draws;  // which row each pair of the split has
  std::string policy;                    // the same in words

  torch::Tensor of(Split split, int64_t begin, int64_t end) const {
    if (draws.empty()) return repeat_rows(rows, begin, end);
    return rows.index_select(0, draws.at(split).slice(0, begin, end));
  }
};
using ConditionDeals = std::map<std::string, ConditionDeal>;

// Every class but the one that stands for none.
torch::Tensor proper_classes(const ConditionCard& condition) {
  const torch::Tensor all = torch::arange(condition.classes, torch::kLong);
  return all.masked_select(all.ne(condition.null));
}

torch::Tensor draw_rows(const SplitPlan& split, uint32_t stream, int64_t rows) {
  std::vector<int64_t> drawn;
  for (const double u : uniform_numbers(static_cast<uint64_t>(split.seed), stream,
                                        static_cast<size_t>(split.count))) {
    drawn.push_back(static_cast<int64_t>(u * static_cast<double>(rows)));
  }
  return torch::tensor(drawn, torch::kLong);
}

ConditionDeal random_classes(const ConditionCard& condition, uint32_t stream,
                             const PairPlan& plan) {
  ConditionDeal deal;
  deal.rows = proper_classes(condition);
  for (const Split split : {Split::train, Split::validation}) {
    deal.draws[split] =
        draw_rows(split == Split::train ? plan.train : plan.validation, stream, deal.rows.size(0));
  }
  deal.policy = fmt::format("{} uniform over {} classes", condition.name, deal.rows.size(0));
  return deal;
}

// Rows are named by their content: a file of the same name may have changed.
std::string describe_content(const ConditionCard& condition, const torch::Tensor& rows) {
  const torch::Tensor plain = rows.contiguous();
  const std::string bytes(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  return fmt::format("{} from {} rows in turn (SHA-256 {})", condition.name, rows.size(0),
                     sha256(bytes));
}

std::string describe_rows(const ConditionCard& condition, const std::string& value,
                          const torch::Tensor& rows) {
  if (is_tensor_file(value) || condition.is_text()) return describe_content(condition, rows);
  return fmt::format("{} = {} in turn", condition.name, value);
}

// Class conditions are drawn unless the user says otherwise, and tensors are those of --utterances
// or none.
ConditionDeals deal_conditions(const OpenModel& open, const std::vector<std::string>& texts,
                               const PairPlan& plan) {
  const std::vector<ConditionCard>& known = open.card.conditions;
  std::map<std::string, std::string> given;
  for (const auto& text : texts) {
    const auto [condition, value] = parse_condition(known, text);
    refuse_beside(open.utterance_rows, condition->name);
    refuse_twice(given.count(condition->name) > 0, condition->name);
    given[condition->name] = value;
  }
  ConditionDeals deals;
  for (size_t i = 0; i < known.size(); ++i) {
    const ConditionCard& condition = known[i];
    const auto found = given.find(condition.name);
    const bool is_given = found != given.end();
    const bool random = !is_given || found->second == kRandomClasses;
    ConditionDeal& deal = deals[condition.name];
    if (!condition.is_tensor() && random) {
      deal = random_classes(condition, kClassStream + static_cast<uint32_t>(i), plan);
    } else if (const auto uttered = open.utterance_rows.find(condition.name);
               uttered != open.utterance_rows.end()) {
      deal.rows = uttered->second;
      deal.policy = describe_content(condition, deal.rows);
    } else if (is_given) {
      deal.rows = condition_rows(condition, found->second);
      deal.policy = describe_rows(condition, found->second, deal.rows);
    } else if (condition.is_text()) {
      throw usage_error(
          "{}", open.encoder
                    ? "the model fills gaps; give --utterances FOLDER, with sounds of the kind "
                      "that the solver is for"
                    : "the model draws what it is told; give --prompts FILE, with prompts of "
                      "the kind that the solver is for, one a line");
    } else {
      deal.rows = default_rows(condition);
      deal.policy = condition.name + " = none";
    }
  }
  return deals;
}

std::string policy_of(const ConditionDeals& deals) {
  std::vector<std::string> policies;
  for (const auto& [name, deal] : deals) policies.push_back(deal.policy);
  return policies.empty() ? "none" : fmt::format("{}", fmt::join(policies, "; "));
}

ModelPtr guided_for(const OpenModel& open, const ConditionDeals& deals) {
  Conditions rows;
  for (const auto& [name, deal] : deals) rows[name] = deal.rows;
  return guided(open, rows);
}

PairPlan plan_of(const PairsCommandOptions& options, const OpenModel& open) {
  PairPlan plan = options.plan;
  plan.owner = {open.identity(), open.guidance};
  plan.tolerances = {options.tolerance, options.tolerance};
  plan.tf32 = open.is_tf32();
  plan.train.seed = options.seed;
  if (!options.validation_seed && options.seed == std::numeric_limits<int64_t>::max()) {
    throw usage_error("no seed comes after --seed {}; give a --validation-seed", options.seed);
  }
  plan.validation.seed = options.validation_seed ? *options.validation_seed : options.seed + 1;
  if (options.trajectories) {
    plan.trajectories = options.trajectories->empty()
                            ? std::min(kUsualTrajectories, plan.train.count)
                            : parse_integer(*options.trajectories, "--trajectories");
  }
  return plan;
}

// With each pair's own weight where guidance is a range.
Conditions dealt(const ConditionDeals& deals, const PairPlan& plan, Split split, int64_t begin,
                 int64_t end) {
  Conditions conditions;
  for (const auto& [name, deal] : deals) conditions[name] = deal.of(split, begin, end);
  if (const auto& range = plan.owner.guidance.range) {
    const int64_t seed = split == Split::train ? plan.train.seed : plan.validation.seed;
    conditions[kGuidanceCondition] = guidance_weights(*range, static_cast<uint64_t>(seed),
                                                      static_cast<uint64_t>(begin), end - begin);
  }
  return conditions;
}

// A look at a few samples before hundreds are made.
void say_first_look(const OpenModel& open, const ModelPtr& model, const PairPlan& plan,
                    const ConditionDeals& deals, int64_t batch) {
  if (!open.network) return;
  GlanceOptions options;
  options.count = std::min(options.count, plan.train.count);
  options.batch = batch;
  options.seed = static_cast<uint64_t>(plan.train.seed);
  options.device = open.device;
  options.conditions = dealt(deals, plan, Split::train, 0, options.count);
  options.mask = error_mask(open.card, options.conditions);
  const SampleGlance glance = glance_at_samples(model, open.card.least, open.card.most, options);
  for (const auto& remark : remarks(glance, open.card)) say("bespoke: warning: {}", remark);
}

PairReport make_with_progress(const PairsCommandOptions& options, const OpenModel& open,
                              const PairPlan& plan, const ConditionDeals& deals) {
  const auto conditions = [&](Split split, int64_t begin, int64_t end) {
    return dealt(deals, plan, split, begin, end);
  };
  Progress progress("pairs");
  PairRun run;
  run.batch = options.model.batch;
  run.device = open.device;
  run.on_progress = [&](double done) { progress.update(done); };
  run.team = &team();
  run.on_given_up = [](int64_t, const std::string& why) {
    say("bespoke: {}; distillation leaves it out", why);
  };
  try {
    return make_pairs(options.output, plan, guided_for(open, deals), conditions, run);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    throw Error(error.kind(), fmt::format("interrupted; what is done is in {}, run the same "
                                          "command again to continue",
                                          options.output));
  }
}

void report_pairs(const PairsCommandOptions& options, const OpenModel& open) {
  PairPlan plan = plan_of(options, open);
  check_plan(plan);
  const ConditionDeals deals = deal_conditions(open, options.conditions, plan);
  plan.conditions = policy_of(deals);
  // A run that is continued has been looked at.
  if (!std::filesystem::exists(std::filesystem::path(options.output) / "manifest.json")) {
    say_first_look(open, guided_for(open, deals), plan, deals, options.model.batch);
  }
  const auto begun = std::chrono::steady_clock::now();
  const PairReport report = make_with_progress(options, open, plan, deals);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const int64_t count = report.manifest.count();
  const double mean =
      static_cast<double>(*report.manifest.evaluations) / static_cast<double>(count);
  fmt::print(
      "{}\nconditions: {}\n{} training and {} validation pairs, {:.1f} evaluations each, tolerance "
      "{:g}\n",
      open.title(), plan.conditions, plan.train.count, plan.validation.count, mean,
      options.tolerance);
  if (report.made == 0) {
    fmt::print("in {}: finished before, nothing to do\n", options.output);
  } else {
    fmt::print("in {}: {} of {} made now, {:.2f} s\n", options.output, report.made, count, seconds);
  }
}

}  // namespace

void make_default_pairs(const OpenModel& open, int64_t batch,
                        const std::vector<std::string>& conditions,
                        const std::optional<double>& tolerance, const std::string& folder) {
  PairsCommandOptions options;
  options.tolerance = tolerance.value_or(options.tolerance);
  options.conditions = conditions;
  options.model.batch = batch;
  options.output = folder;
  report_pairs(options, open);
}

MadePairs make_pairs_now(const OpenModel& open, const MadePairsOptions& own) {
  const ModelDistillOptions defaults;
  PairsCommandOptions options;
  options.tolerance = own.tolerance;
  options.plan.train.count = own.train;
  options.plan.validation.count = own.validation;
  MadePairs made;
  made.plan = plan_of(options, open);
  check_plan(made.plan);
  PairPlan with_matching = made.plan;
  with_matching.train.count += own.matching;
  const ConditionDeals deals = deal_conditions(open, own.conditions, with_matching);
  made.plan.conditions = policy_of(deals);
  const ModelPtr model = guided_for(open, deals);
  if (own.fixed_evaluations == 0) say_first_look(open, model, made.plan, deals, own.batch);
  const auto make = [&](const std::string& what, Split split, PairSource source) {
    Progress progress(fmt::format("the model's own samples ({})", what));
    const int64_t end = source.first + source.count;
    source.seed = split == Split::train ? made.plan.train.seed : made.plan.validation.seed;
    source.conditions = dealt(deals, with_matching, split, source.first, end);
    PairRun run;
    run.batch = own.batch;
    run.device = open.device;
    run.on_progress = [&](double done) { progress.update(done); };
    run.on_given_up = [](int64_t, const std::string&) {};  // distillation leaves it out
    run.team = &team();
    return make_pairs(model, source, run);
  };
  const auto source_of = [&](const SplitPlan& plan, int64_t trajectories) {
    PairSource source;
    source.count = plan.count;
    source.tolerances = made.plan.tolerances;
    source.trajectories = trajectories;
    source.fixed_evaluations = own.fixed_evaluations;
    return source;
  };
  made.train = make("train", Split::train, source_of(made.plan.train, defaults.fit.samples));
  if (own.validation > 0) {
    made.validation = make("validation", Split::validation, source_of(made.plan.validation, 0));
  }
  if (own.matching > 0) {
    PairSource source;
    source.first = made.plan.train.count;
    source.count = own.matching;
    source.tolerances = defaults.match_tolerances;
    // Statistics need no exact samples.
    source.fixed_evaluations = std::min(own.fixed_evaluations, kUsualEvaluations);
    made.matching = make("to match statistics of", Split::train, source);
  }
  return made;
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
  command->callback([options] { report_pairs(*options, open_model(options->model)); });
}

}  // namespace bespoke
