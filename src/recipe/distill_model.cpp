#include "bespoke/recipe/distill_model.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"

namespace bespoke {

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

Pairs given_or_made(const ModelPtr& model, const ModelDistillOptions& options, Split split) {
  const bool train = split == Split::train;
  const std::optional<Pairs>& given = train ? options.training : options.validation;
  if (given) return given->to(options.device, state_dtype(*model));
  const SplitPlan& plan = train ? options.training_plan : options.validation_plan;
  PairSource source;
  source.seed = plan.seed;
  source.count = plan.count;
  source.tolerances = options.tolerances.value_or(
      usual_tolerances(options.nfe > 0 ? options.nfe : options.network_calls));
  source.trajectories = train ? trajectories_needed(options) : 0;
  if (options.conditions) source.conditions = options.conditions(split, 0, plan.count);
  const PairRun run = run_for(options, to_string(split) + " pairs");
  return make_pairs(model, source, run).to(options.device, state_dtype(*model));
}

Pairs pairs_for(const ModelPtr& model, const ModelDistillOptions& options, Split split) {
  SoundPairs sound = leave_out_broken(given_or_made(model, options, split), to_string(split));
  for (const int64_t pair : sound.left_out) {
    if (options.on_left_out) options.on_left_out(split, pair);
  }
  return std::move(sound.pairs);
}

// Whose statistics are matched: those given, or those after the training pairs.
Pairs matching_pairs(const ModelPtr& model, const ModelDistillOptions& options) {
  const torch::ScalarType dtype = state_dtype(*model);
  if (options.matching) {
    return leave_out_broken(options.matching->to(options.device, dtype), "matching").pairs;
  }
  PairSource source;
  source.seed = options.training_plan.seed;
  source.first = options.training_plan.count;
  source.count = options.match_samples;
  source.tolerances = options.match_tolerances;
  const int64_t end = source.first + source.count;
  if (options.conditions) {
    source.conditions = options.conditions(Split::train, source.first, end);
  }
  const Pairs made = make_pairs(model, source, run_for(options, "samples to match statistics of"));
  return leave_out_broken(made.to(options.device, dtype), "matching").pairs;
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
                                    const Pairs& validation, const Pairs& matching,
                                    const ModelDistillOptions& options, const DistillState& state) {
  const auto field = std::make_shared<VelocityField>(model);
  DistillOptions own = options;
  std::optional<Samples> matched;
  if (own.match.has_statistics(own.nfe)) {
    own.match.samples = &matched.emplace(tensor_samples(field, matching, options.samples));
  }
  const TensorGradients gradients(field, training, options.samples);
  return distill(tensor_samples(field, training, options.samples),
                 tensor_samples(field, validation, options.samples), own, state, &gradients);
}

}  // namespace

DistillSummary distill(const ModelPtr& model, const ModelDistillOptions& options,
                       DistillState state) {
  ModelDistillOptions own = options;
  if (!own.field.schedule) {
    own.field.prediction = model->prediction();
    own.field.schedule = model->schedule();
  }
  fill_in_features(own.match);
  own.validate();
  const Pairs training = pairs_for(model, options, Split::train);
  const Pairs validation = pairs_for(model, options, Split::validation);
  const bool matches = own.match.has_statistics(own.nfe);
  const Pairs matching = matches ? matching_pairs(model, options) : Pairs();
  own.on_iteration = [&](const DistillProgress& progress, const DistillState& reached) {
    state = reached;
    const bool stops =
        options.on_iteration && options.on_iteration(progress, reached) == Verdict::stop;
    return any_of(*own.team, stops) ? Verdict::stop : Verdict::go_on;
  };
  own.samples.joins_runs = own.samples.joins_runs || !options.device.is_cpu();
  own.samples.team = own.team;
  while (true) {
    try {
      if (own.method == Method::adam) {
        return distill_as_published(model, training, validation, matching, own, state);
      }
      std::optional<Samples> matched;
      if (matches) {
        own.match.samples = &matched.emplace(canonical_samples(model, matching, own.samples));
      }
      return distill(canonical_samples(model, training, own.samples),
                     canonical_samples(model, validation, own.samples), own, state);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      need_less_memory(own.samples, options);
    }
  }
}

}  // namespace bespoke
