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
  PairRun run;
  run.batch = options.samples.device_batch;
  run.device = options.device;
  run.team = options.team;
  run.on_progress = [&](double done) {
    if (options.on_progress) options.on_progress(to_string(split) + " pairs", done);
  };
  run.on_given_up = [](int64_t, const std::string&) {};  // left out below
  return make_pairs(model, source, run).to(options.device, state_dtype(*model));
}

Pairs pairs_for(const ModelPtr& model, const ModelDistillOptions& options, Split split) {
  SoundPairs sound = leave_out_broken(given_or_made(model, options, split), to_string(split));
  for (const int64_t pair : sound.left_out) {
    if (options.on_left_out) options.on_left_out(split, pair);
  }
  return std::move(sound.pairs);
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
                                    const Pairs& validation, const ModelDistillOptions& options,
                                    const DistillState& state) {
  const auto field = std::make_shared<VelocityField>(model);
  const TensorGradients gradients(field, training, options.samples);
  return distill(tensor_samples(field, training, options.samples),
                 tensor_samples(field, validation, options.samples), options, state, &gradients);
}

}  // namespace

DistillSummary distill(const ModelPtr& model, const ModelDistillOptions& options,
                       DistillState state) {
  ModelDistillOptions own = options;
  if (!own.field.schedule) {
    own.field.prediction = model->prediction();
    own.field.schedule = model->schedule();
  }
  own.validate();
  const Pairs training = pairs_for(model, options, Split::train);
  const Pairs validation = pairs_for(model, options, Split::validation);
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
        return distill_as_published(model, training, validation, own, state);
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
