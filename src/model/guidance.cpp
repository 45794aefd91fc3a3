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
    Conditions doubled;
    for (const auto& [name, null] : null_conditions_) {
      const auto given = conditions.find(name);
      if (given == conditions.end()) {
        throw bad_input("guidance needs the condition '{}', none was given", name);
      }
      doubled[name] = torch::cat({given->second, null.expand_as(given->second)});
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
