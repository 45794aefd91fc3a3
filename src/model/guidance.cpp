#include "bespoke/model/guidance.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/even_numbers.h"
#include "bespoke/model/clipped_model.h"
#include "bespoke/model/fields.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"

namespace bespoke {

namespace {

torch::Tensor chosen_rows(const torch::Tensor& values, const torch::Tensor& active) {
  if (active.numel() == values.size(0)) return values;
  return values.index_select(0, copied_to(active, values.device(), torch::kLong));
}

// The times of all samples, then those of the active ones; one time for all stays one.
torch::Tensor with_chosen_times(const torch::Tensor& t, const torch::Tensor& active) {
  if (t.numel() > 1 && t.stride(0) == 0 && !t.requires_grad()) {
    return t.slice(0, 0, 1).expand({t.numel() + active.numel()});
  }
  return torch::cat({t, t.index_select(0, active)});
}

class GuidedModel : public Model {
 public:
  GuidedModel(ModelPtr model, GuidanceWeight weight, Conditions null_conditions)
      : model_(std::move(model)),
        weight_(std::move(weight)),
        null_conditions_(std::move(null_conditions)) {}

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    require_conditions(conditions);
    const torch::Tensor w = weights(t, conditions);
    const torch::Tensor active = w.detach().ne(0).nonzero().reshape({-1});
    const Conditions model_conditions = of_the_model(conditions);
    if (active.numel() == 0) return model_->predict(x, t, model_conditions);
    const auto [guided, unguided] = both_halves(x, t, model_conditions, active);
    const auto chosen = active.numel() == x.size(0) ? w : w.index_select(0, active);
    const auto factor =
        per_sample(copied_to(chosen, guided.device(), guided.scalar_type()), guided.dim());
    if (active.numel() == x.size(0)) return guided + factor * (guided - unguided);
    const auto device_index = copied_to(active, x.device(), torch::kLong);
    const auto change = factor * (guided.index_select(0, device_index) - unguided);
    return guided.index_add(0, device_index, change);
  }

  GuidanceParts predict_parts(const torch::Tensor& x, const torch::Tensor& t,
                              const Conditions& conditions, bool with_difference) const override {
    require_conditions(conditions);
    const Conditions model_conditions = of_the_model(conditions);
    if (!with_difference) return {model_->predict(x, t, model_conditions), {}};
    const auto [guided, unguided] = both_halves(x, t, model_conditions, torch::arange(x.size(0)));
    return {guided, guided - unguided};
  }

  // Weights of the samples' own are sent in every call.
  bool can_be_recorded() const override { return !weight_.range && model_->can_be_recorded(); }

  Prediction prediction() const override { return model_->prediction(); }
  SchedulePtr schedule() const override { return model_->schedule(); }
  std::vector<int64_t> sample_shape() const override { return model_->sample_shape(); }
  torch::ScalarType dtype() const override { return model_->dtype(); }

 private:
  void require_conditions(const Conditions& conditions) const {
    for (const auto& entry : null_conditions_) {
      if (conditions.count(entry.first) == 0) {
        throw bad_input("guidance needs the condition '{}', none was given", entry.first);
      }
    }
  }

  // [batch], on the CPU.
  torch::Tensor weights(const torch::Tensor& t, const Conditions& conditions) const {
    torch::Tensor w = time_function(t, [this](double time) { return weight_.at(time); });
    if (!weight_.range) return w;
    const auto entry = conditions.find(kGuidanceCondition);
    if (entry == conditions.end()) {
      throw bad_input("guidance over a range needs each sample's own weight, the condition '{}'",
                      kGuidanceCondition);
    }
    return w * entry->second.to(torch::kCPU, torch::kDouble);
  }

  Conditions of_the_model(Conditions conditions) const {
    conditions.erase(kGuidanceCondition);
    return conditions;
  }

  // The predictions of all samples, and those of the active ones without their condition, float32
  // or wider.
  std::pair<torch::Tensor, torch::Tensor> both_halves(const torch::Tensor& x,
                                                      const torch::Tensor& t,
                                                      const Conditions& model_conditions,
                                                      const torch::Tensor& active) const {
    const auto output =
        model_->predict(torch::cat({x, chosen_rows(x, active)}), with_chosen_times(t, active),
                        with_null_half(model_conditions, active));
    const auto wide = output.element_size() < 4 ? output.to(torch::kFloat) : output;
    return {wide.slice(0, 0, x.size(0)), wide.slice(0, x.size(0))};
  }

  // The conditions of all samples, then those of the active ones with null in place of what has it.
  Conditions with_null_half(const Conditions& conditions, const torch::Tensor& active) const {
    Conditions both;
    for (const auto& [name, value] : conditions) {
      const auto null = null_conditions_.find(name);
      auto half = chosen_rows(value, active);
      if (null != null_conditions_.end()) {
        half = copied_to(null->second, value.device(), value.scalar_type()).expand_as(half);
      }
      both[name] = torch::cat({value, half});
    }
    return both;
  }

  ModelPtr model_;
  GuidanceWeight weight_;
  Conditions null_conditions_;
};

}  // namespace

Conditions conditions_on(const Conditions& conditions, torch::Device device) {
  Conditions moved;
  for (const auto& [name, values] : conditions) {
    moved[name] = name == kGuidanceCondition ? values : values.to(device);
  }
  return moved;
}

torch::Tensor guidance_weights(const GuidanceRange& range, uint64_t seed, uint64_t first,
                               int64_t count) {
  torch::Tensor weights = torch::empty({count}, torch::kDouble);
  auto* w = weights.data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    w[i] = range.from + range.width() * even_number(seed, first + static_cast<uint64_t>(i));
  }
  return weights;
}

ModelPtr guided_model(ModelPtr model, GuidanceWeight weight, Conditions null_conditions) {
  if (const auto parts = clipped_parts(model)) {
    return clipped_model(guided_model(parts->model, std::move(weight), std::move(null_conditions)),
                         parts->clip);
  }
  return std::make_shared<GuidedModel>(std::move(model), std::move(weight),
                                       std::move(null_conditions));
}

}  // namespace bespoke
