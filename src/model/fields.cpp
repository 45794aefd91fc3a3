#include "bespoke/model/fields.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"

namespace bespoke {

namespace {

class TimeFunction : public torch::autograd::Function<TimeFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& t,
                               const std::function<Jet(double)>& f) {
    const bool uniform = t.numel() > 1 && t.stride(0) == 0;
    const torch::Tensor times = uniform ? t.slice(0, 0, 1) : t.contiguous();
    torch::Tensor values = torch::empty_like(times), slopes = torch::empty_like(times);
    for (int64_t i = 0; i < times.numel(); ++i) {
      const Jet jet = f(times.data_ptr<double>()[i]);
      values.data_ptr<double>()[i] = jet.value;
      slopes.data_ptr<double>()[i] = jet.first;
    }
    context->save_for_backward({slopes});
    return uniform ? values.expand_as(t) : values;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0], torch::Tensor()};
  }
};

std::vector<double> to_vector(const torch::Tensor& values) {
  const torch::Tensor flat = values.contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

}  // namespace

torch::Tensor time_function(const torch::Tensor& t, const std::function<Jet(double)>& f) {
  return TimeFunction::apply(t, f);
}

torch::Tensor apply_affine(const torch::Tensor& state, const torch::Tensor& output,
                           const torch::Tensor& x, const torch::Tensor& f) {
  const bool wide = x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kDouble;
  if (!torch::GradMode::is_enabled() && x.device().is_cpu() && wide) {
    torch::Tensor result = torch::empty(x.sizes(), x.options());
    combine_per_sample(result, {x, f}, {to_vector(state), to_vector(output)});
    return result;
  }
  const auto factor = [&x](const torch::Tensor& values) {
    return per_sample(copied_to(values, x.device(), x.scalar_type()), x.dim());
  };
  return factor(state) * x + factor(output) * f.to(x.scalar_type());
}

VelocityField::VelocityField(ModelPtr model)
    : model_(std::move(model)), margin_(safe_margin(*model_)) {}

torch::Tensor VelocityField::safe_times(const torch::Tensor& t) const {
  const SchedulePtr schedule = model_->schedule();
  return time_function(t, [&](double time) {
    return Jet(safe_velocity_time(model_->prediction(), *schedule, time, margin_), 1, 0);
  });
}

torch::Tensor VelocityField::weight(const torch::Tensor& safe, Jet Affine<Jet>::*part) const {
  const SchedulePtr schedule = model_->schedule();
  return time_function(safe, [&](double time) {
    return velocity_from(model_->prediction(), schedule->jet_at(time)).*part;
  });
}

torch::Tensor VelocityField::velocity(const torch::Tensor& x, const torch::Tensor& t,
                                      const Conditions& conditions) const {
  const torch::Tensor safe = safe_times(t);
  torch::Tensor output = model_->predict(x, safe, conditions);
  if (model_->prediction() == Prediction::velocity) return output;
  return apply_affine(weight(safe, &Affine<Jet>::state), weight(safe, &Affine<Jet>::output), x,
                      output);
}

GuidanceParts VelocityField::velocity_parts(const torch::Tensor& x, const torch::Tensor& t,
                                            const Conditions& conditions,
                                            bool with_difference) const {
  const torch::Tensor safe = safe_times(t);
  GuidanceParts parts = model_->predict_parts(x, safe, conditions, with_difference);
  if (model_->prediction() == Prediction::velocity) return parts;
  const torch::Tensor of_output = weight(safe, &Affine<Jet>::output);
  parts.conditional =
      apply_affine(weight(safe, &Affine<Jet>::state), of_output, x, parts.conditional);
  // The state's share is the same in both and leaves nothing in the difference.
  if (with_difference) {
    parts.difference = apply_affine(torch::zeros_like(safe), of_output, x, parts.difference);
  }
  return parts;
}

RescheduledField::RescheduledField(ModelPtr model, SchedulePtr to)
    : model_(std::move(model)),
      to_(std::move(to)),
      transform_(schedule_change(model_->schedule(), to_)),
      margin_(safe_margin(*model_)) {}

torch::Tensor RescheduledField::of_calls(
    const torch::Tensor& r, const std::function<double(const ModelCall&)>& number) const {
  return time_function(r, [&](double time) {
    return Jet(number(rescheduled_call(model_->prediction(), *model_->schedule(), *transform_, *to_,
                                       time, margin_)));
  });
}

torch::Tensor RescheduledField::own_states(const torch::Tensor& x, const torch::Tensor& r) const {
  const auto scale = of_calls(r, [](const ModelCall& call) { return call.scale; });
  return per_sample(copied_to(scale, x.device(), x.scalar_type()), x.dim()) * x;
}

torch::Tensor RescheduledField::velocity(const torch::Tensor& x, const torch::Tensor& r,
                                         const Conditions& conditions) const {
  const torch::Tensor state = own_states(x, r);
  const auto t = of_calls(r, [](const ModelCall& call) { return call.time; });
  const auto output = model_->predict(state, t, conditions);
  return apply_affine(of_calls(r, [](const ModelCall& call) { return call.velocity.state; }),
                      of_calls(r, [](const ModelCall& call) { return call.velocity.output; }),
                      state, output);
}

GuidanceParts RescheduledField::velocity_parts(const torch::Tensor& x, const torch::Tensor& r,
                                               const Conditions& conditions,
                                               bool with_difference) const {
  const torch::Tensor state = own_states(x, r);
  const auto t = of_calls(r, [](const ModelCall& call) { return call.time; });
  const auto of_output = of_calls(r, [](const ModelCall& call) { return call.velocity.output; });
  GuidanceParts parts = model_->predict_parts(state, t, conditions, with_difference);
  parts.conditional =
      apply_affine(of_calls(r, [](const ModelCall& call) { return call.velocity.state; }),
                   of_output, state, parts.conditional);
  // The state's share is the same in both and leaves nothing in the difference.
  if (with_difference) {
    parts.difference = apply_affine(torch::zeros_like(r), of_output, state, parts.difference);
  }
  return parts;
}

}  // namespace bespoke
