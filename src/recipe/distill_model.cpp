#include "bespoke/recipe/distill_model.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/call_plan.h"
#include "bespoke/model/fields.h"
#include "bespoke/recipe/reference_choice.h"
#include "bespoke/run/multistep.h"

namespace bespoke {

using namespace detail;

namespace {

// The fit is a start where no other is given.
int64_t trajectories_needed(const ModelDistillOptions& options) {
  return options.method != Method::adam && options.starts.empty() ? options.fit.samples : 0;
}

PairRun run_for(const ModelDistillOptions& options, const std::string& what) {
  PairRun run;
  run.batch = options.samples.device_batch;
  run.device = options.device;
  run.team = options.team;
  run.on_progress = [&options, what](double done) {
    if (options.on_progress) options.on_progress(what, done);
  };
  run.on_given_up = [](int64_t, const std::string&) {};  // left out below
  return run;
}

PairSource source_of(const ModelDistillOptions& options, Split split) {
  const bool train = split == Split::train;
  const SplitPlan& plan = train ? options.training_plan : options.validation_plan;
  PairSource source;
  source.seed = plan.seed;
  source.count = plan.count;
  source.tolerances = options.tolerances.value_or(
      usual_tolerances(options.nfe > 0 ? options.nfe : options.network_calls));
  source.fixed_evaluations = options.fixed_evaluations;
  source.trajectories = train ? trajectories_needed(options) : 0;
  if (options.conditions) source.conditions = options.conditions(split, 0, plan.count);
  return source;
}

Pairs given_or_made(const ModelPtr& model, const ModelDistillOptions& options, Split split) {
  const std::optional<Pairs>& given = split == Split::train ? options.training : options.validation;
  if (given) return given->to(options.device, state_dtype(*model));
  const PairRun run = run_for(options, to_string(split) + " pairs");
  return make_pairs(model, source_of(options, split), run).to(options.device, state_dtype(*model));
}

// The calls that pairs took: two for each evaluation where network calls are counted.
int64_t calls_of(const Pairs& made, const ModelDistillOptions& options) {
  return made.evaluations.sum().item<int64_t>() * (options.network_calls > 0 ? 2 : 1);
}

Pairs pairs_for(const ModelPtr& model, const ModelDistillOptions& options, Split split,
                int64_t* calls) {
  const Pairs pairs = given_or_made(model, options, split);
  if (!(split == Split::train ? options.training : options.validation)) {
    *calls += calls_of(pairs, options);
  }
  IntactPairs sound = leave_out_broken(pairs, to_string(split));
  for (const int64_t pair : sound.left_out) {
    if (options.on_left_out) options.on_left_out(split, pair);
  }
  return std::move(sound.pairs);
}

// Where a number of evaluations is asked for, they are spent as suits the model.
ModelDistillOptions with_chosen_reference(const ModelPtr& model, ModelDistillOptions options,
                                          int64_t* calls) {
  if (options.fixed_evaluations == 0 || options.training) return options;
  const ReferenceChoice choice =
      choose_reference(model, source_of(options, Split::train), options.fixed_evaluations,
                       run_for(options, "how to draw the model's own samples"));
  options.fixed_evaluations = choice.fixed_evaluations;
  if (choice.fixed_evaluations == 0) options.tolerances = choice.tolerances;
  for (SplitPlan* plan : {&options.training_plan, &options.validation_plan}) {
    plan->count = choice.affordable(plan->count);
  }
  *calls += choice.calls * (options.network_calls > 0 ? 2 : 1);
  return options;
}

// Whose statistics are matched: those given, or those after the training pairs.
Pairs matching_pairs(const ModelPtr& model, const ModelDistillOptions& options, int64_t* calls) {
  const torch::ScalarType dtype = state_dtype(*model);
  if (options.matching) {
    return leave_out_broken(options.matching->to(options.device, dtype), "matching").pairs;
  }
  PairSource source;
  source.seed = options.training_plan.seed;
  source.first = options.training_plan.count;
  source.count = options.match_samples;
  source.tolerances = options.match_tolerances;
  source.fixed_evaluations = std::min(options.fixed_evaluations, kUsualEvaluations);
  const int64_t end = source.first + source.count;
  if (options.conditions) {
    source.conditions = options.conditions(Split::train, source.first, end);
  }
  const Pairs made = make_pairs(model, source, run_for(options, "samples to match statistics of"));
  *calls += calls_of(made, options);
  return leave_out_broken(made.to(options.device, dtype), "matching").pairs;
}

// The groups that a condition makes of samples.
std::vector<int64_t> groups_by(const Conditions& conditions, const std::string& name) {
  const auto entry = conditions.find(name);
  if (entry == conditions.end()) {
    throw bad_input("samples cannot be grouped by {}, which is no condition of theirs", name);
  }
  const torch::Tensor& values = entry->second;
  if (values.dim() != 1 || values.is_floating_point()) {
    throw bad_input("samples are grouped by a condition of a class each, which {} is not", name);
  }
  const torch::Tensor wide = values.to(torch::kCPU, torch::kLong).contiguous();
  return {wide.data_ptr<int64_t>(), wide.data_ptr<int64_t>() + wide.numel()};
}

// Where statistics are asked for without features.
void fill_in_features(MatchOptions& match) {
  const bool is_asked_for = match.match == Match::both || match.match == Match::distribution;
  if (is_asked_for && !match.features) match.features = sample_features(plain_tensor_features);
}

// Says so, or gives up.
void need_less_memory(TensorSamplesOptions& samples, const ModelDistillOptions& options) {
  if (samples.device_batch == 1) {
    throw Error(ErrorKind::device,
                "out of memory even for one sample at a time; use a narrower precision or a device "
                "with more memory");
  }
  samples.device_batch /= 2;
  if (options.on_less_memory) options.on_less_memory(samples);
}

// The published recipe takes the model as it is told, with gradients.
DistillSummary distill_as_published(const ModelPtr& model, const Pairs& training,
                                    const std::optional<Pairs>& validation, const Pairs& matching,
                                    const ModelDistillOptions& options, const DistillState& state) {
  const auto field = std::make_shared<VelocityField>(model);
  DistillOptions completed = options;
  std::optional<Samples> matched;
  if (completed.matches_statistics()) {
    completed.match.samples = &matched.emplace(tensor_samples(field, matching, options.samples));
  }
  const TensorGradients gradients(field, training, options.samples);
  const Samples learnt = tensor_samples(field, training, options.samples);
  if (!validation) return distill(learnt, learnt, completed, state, &gradients);
  return distill(learnt, tensor_samples(field, *validation, options.samples), completed, state,
                 &gradients);
}

}  // namespace

namespace {

constexpr int64_t kLeastShare =
    3;  // of the calls, one goes to samples whose statistics are matched

// What these cost. As much at least is needed to match them.
int64_t calls_to_match(const ModelDistillOptions& options) {
  if (!options.matches_statistics()) return 0;
  const int64_t drawing = options.match_samples * kUsualEvaluations;
  if (options.most_calls < kLeastShare * drawing) {
    throw usage_error(
        "{} calls do not pay for matching the statistics of {} samples; give at least {}, fewer "
        "--match-samples, or --match samples",
        grouped(options.most_calls), options.match_samples, grouped(kLeastShare * drawing));
  }
  return drawing;
}

}  // namespace

int64_t match_samples_within(int64_t calls) { return calls / (kLeastShare * kUsualEvaluations); }

ModelDistillOptions within_calls(ModelDistillOptions options, int64_t samples) {
  if (options.method == Method::adam) {
    throw usage_error(
        "a number of calls cannot pay for adam's hundreds of pairs, which are made beforehand; "
        "make them first, and give those, or take auto, fit or direct");
  }
  CallBudget budget;
  budget.calls = options.most_calls - calls_to_match(options);
  budget.holds_out = options.network_calls != 0;
  budget.run = budget.holds_out ? options.network_calls : options.nfe;
  budget.evaluation = budget.holds_out ? 2 : 1;
  budget.samples = samples;
  const CallPlan plan = plan_calls(budget);
  options.training_plan.count = plan.samples;
  options.validation_plan.count = plan.held_out;
  options.fixed_evaluations = plan.evaluations;
  return options;
}

DistillSummary distill(const ModelPtr& model, const ModelDistillOptions& options,
                       DistillState state) {
  ModelDistillOptions completed = options;
  if (!completed.field.schedule) {
    completed.field.prediction = model->prediction();
    completed.field.schedule = model->schedule();
  }
  fill_in_features(completed.match);
  completed.validate();
  const ModelDistillOptions drawing =
      with_chosen_reference(model, options, &completed.reference_forwards);
  const Pairs training = pairs_for(model, drawing, Split::train, &completed.reference_forwards);
  std::optional<Pairs> validation;
  if (options.validation || options.validation_plan.count > 0) {
    validation = pairs_for(model, drawing, Split::validation, &completed.reference_forwards);
  }
  const bool matches = completed.matches_statistics();
  // For good: a search of the number of steps would be of another mind.
  if (completed.match.match == Match::automatic) {
    completed.match.match = matches ? Match::both : Match::samples;
  }
  const Pairs matching =
      matches ? matching_pairs(model, options, &completed.reference_forwards) : Pairs();
  if (matches && !options.match_groups.empty()) {
    completed.match.groups = groups_by(matching.conditions, options.match_groups);
  }
  completed.on_iteration = [&](const DistillProgress& progress, const DistillState& reached) {
    state = reached;
    const bool stops =
        options.on_iteration && options.on_iteration(progress, reached) == Verdict::stop;
    return any_of(*completed.team, stops) ? Verdict::stop : Verdict::go_on;
  };
  completed.samples.joins_runs = completed.samples.joins_runs || !options.device.is_cpu();
  completed.samples.team = completed.team;
  while (true) {
    try {
      if (completed.method == Method::adam) {
        return distill_as_published(model, training, validation, matching, completed, state);
      }
      std::optional<Samples> matched;
      if (matches) {
        completed.match.samples =
            &matched.emplace(canonical_samples(model, matching, completed.samples));
      }
      const Samples learnt = canonical_samples(model, training, completed.samples);
      if (!validation) return distill(learnt, learnt, completed, state);
      return distill(learnt, canonical_samples(model, *validation, completed.samples), completed,
                     state);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      need_less_memory(completed.samples, options);
    }
  }
}

}  // namespace bespoke
