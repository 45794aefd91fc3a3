#include "bespoke/model/guidance.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/core/error.h"

namespace bespoke {

namespace {

class GuidedModel : public Model {
 public:
  GuidedModel(ModelPtr model, double w, Conditions null_conditions)
      : model_(std::move(model)), w_(w), null_conditions_(std::move(null_conditions)) {}

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    for (const auto& entry : null_conditions_) {
      if (conditions.count(entry.first) == 0) {
        throw bad_input("guidance needs the condition '{}', none was given", entry.first);
      }
    }
    Conditions doubled;
    for (const auto& [name, value] : conditions) {
      const auto null = null_conditions_.find(name);
      const bool kept = null == null_conditions_.end();
      doubled[name] =
          torch::cat({value, kept ? value : null->second.to(value.device()).expand_as(value)});
    }
    const auto both = model_->predict(torch::cat({x, x}), torch::cat({t, t}), doubled).chunk(2);
    return (1 + w_) * both[0] - w_ * both[1];
  }

  Prediction prediction() const override { return model_->prediction(); }
  SchedulePtr schedule() const override { return model_->schedule(); }
  std::vector<int64_t> sample_shape() const override { return model_->sample_shape(); }
  torch::ScalarType dtype() const override { return model_->dtype(); }

 private:
  ModelPtr model_;
  double w_;
  Conditions null_conditions_;
};

}  // namespace

ModelPtr guided_model(ModelPtr model, double w, Conditions null_conditions) {
  return std::make_shared<GuidedModel>(std::move(model), w, std::move(null_conditions));
}

}  // namespace bespoke
