#include "bespoke/sample/tensor_field.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/model/fields.h"
#include "bespoke/path/conversion.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "bespoke/tensor/transfer.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

namespace {

torch::Tensor times_of(const std::vector<double>& times, const torch::Tensor& x) {
  if (times.size() > 1) return torch::tensor(times, torch::kDouble);
  return torch::full({1}, times.front(), torch::kDouble).expand({x.size(0)});
}

bool are_first(const std::vector<int64_t>& samples) {
  for (size_t k = 0; k < samples.size(); ++k) {
    if (samples[k] != static_cast<int64_t>(k)) return false;
  }
  return true;
}

// Without a copy where all samples are asked about at once, as they are where whole samples are
// recorded.
Conditions conditions_of(const Conditions& all, const std::vector<int64_t>& samples) {
  const bool first = are_first(samples);
  Conditions chosen;
  for (const auto& [name, values] : all) {
    const auto count = static_cast<int64_t>(samples.size());
    chosen[name] = first ? (values.size(0) == count ? values : values.slice(0, 0, count))
                         : rows_of(values, samples);
  }
  return chosen;
}

Velocities velocities_of(const Field& field, const torch::Tensor& x,
                         const std::vector<double>& times, const Conditions& conditions,
                         Question question) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor t = times_of(times, x);
  const GuidanceParts parts =
      question == Question::velocity
          ? GuidanceParts{field.velocity(x, t, conditions), {}}
          : field.velocity_parts(x, t, conditions,
                                 question == Question::conditional_and_difference);
  const auto kept = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? array_of(kept_velocity(tensor, x)) : Array();
  };
  return {kept(parts.conditional), kept(parts.difference)};
}

class FieldOnTensors : public ArrayField {
 public:
  FieldOnTensors(std::shared_ptr<const Field> field, Conditions conditions)
      : field_(std::move(field)), conditions_(std::move(conditions)) {}

  const Arrays& arrays() const override { return *tensor_arrays(); }
  Velocities evaluate(const Array& x, const std::vector<double>& times,
                      const std::vector<int64_t>& samples, Question question) const override {
    return velocities_of(*field_, tensor_of(x), times, conditions_of(conditions_, samples),
                         question);
  }

 private:
  std::shared_ptr<const Field> field_;
  Conditions conditions_;
};

class ModelOnTensors : public SampledField {
 public:
  ModelOnTensors(ModelPtr model, Conditions conditions)
      : model_(std::move(model)),
        own_(model_),
        straight_(model_, fm_ot_schedule()),
        conditions_(std::move(conditions)) {}

  const Arrays& arrays() const override { return *tensor_arrays(); }
  Velocities evaluate(const Array& x, const std::vector<double>& times,
                      const std::vector<int64_t>& samples, Question question) const override {
    return velocities_of(own_, tensor_of(x), times, conditions_of(conditions_, samples), question);
  }
  Velocities evaluate_straight(const Array& x, const std::vector<double>& times,
                               const std::vector<int64_t>& samples,
                               Question question) const override {
    return velocities_of(straight_, tensor_of(x), times, conditions_of(conditions_, samples),
                         question);
  }
  Array bridge(const Array& x, double from, double to, double at,
               const std::vector<int64_t>& samples) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor& state = tensor_of(x);
    const torch::Tensor t = torch::full({state.size(0)}, at, torch::kDouble);
    const Affine<double> step =
        bridge_step(model_->prediction(), *model_->schedule(), from, to, at);
    const torch::Tensor f = model_->predict(state, t, conditions_of(conditions_, samples));
    return array_of(step.state * state + step.output * f.to(torch::kDouble));
  }
  Crossing crossing(double start, double end) const override {
    return crossing_of(model_->prediction(), *model_->schedule(), start, end, safe_margin(*model_));
  }
  SchedulePtr schedule() const override { return model_->schedule(); }
  double velocity_time(double t) const override {
    return safe_velocity_time(model_->prediction(), *model_->schedule(), t, safe_margin(*model_));
  }

 private:
  ModelPtr model_;
  VelocityField own_;
  RescheduledField straight_;
  Conditions conditions_;
};

}  // namespace

std::shared_ptr<ArrayField> tensor_field(std::shared_ptr<const Field> field,
                                         Conditions conditions) {
  return std::make_shared<FieldOnTensors>(std::move(field), std::move(conditions));
}

std::shared_ptr<SampledField> tensor_field(ModelPtr model, Conditions conditions) {
  return std::make_shared<ModelOnTensors>(std::move(model), std::move(conditions));
}

}  // namespace bespoke
