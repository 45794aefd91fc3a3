#include "bespoke/model/clipped_model.h"

#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/path/conversion.h"
#include "bespoke/tensor/combine.h"

namespace bespoke {

namespace {

class ClippedModel : public Model {
 public:
  ClippedModel(ModelPtr model, const Clip& clip)
      : model_(std::move(model)), clip_(clip), margin_(safe_margin(*model_)) {}

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    const SchedulePtr schedule = model_->schedule();
    const Prediction prediction = model_->prediction();
    const torch::Tensor safe = time_function(
        t, [&](double time) { return Jet(safe_time(prediction, *schedule, time, margin_), 1, 0); });
    const torch::Tensor output = model_->predict(x, safe, conditions);
    const auto weight = [&](Jet Affine<Jet>::*part) {
      return time_function(
          safe, [&](double time) { return data_from(prediction, schedule->jet_at(time)).*part; });
    };
    return clipped(
        apply_affine(weight(&Affine<Jet>::state), weight(&Affine<Jet>::output), x, output), clip_);
  }

  GuidanceParts predict_parts(const torch::Tensor&, const torch::Tensor&, const Conditions&,
                              bool) const override {
    throw bad_input(
        "a solver with built-in guidance cannot run on a model whose card has \"clip\": what is "
        "clipped "
        "is the guided prediction; distil one without --network-calls");
  }

  bool can_be_recorded() const override { return model_->can_be_recorded(); }
  Prediction prediction() const override { return Prediction::data; }
  SchedulePtr schedule() const override { return model_->schedule(); }
  std::vector<int64_t> sample_shape() const override { return model_->sample_shape(); }
  torch::ScalarType dtype() const override { return model_->dtype(); }

  ClippedParts parts() const { return {model_, clip_}; }

 private:
  ModelPtr model_;
  Clip clip_;
  double margin_;
};

// The quantile of each sample, [batch]: linear between the two nearest values, as NumPy and PyTorch
// have it.
torch::Tensor quantile_of(const torch::Tensor& magnitudes, double quantile) {
  const int64_t last = magnitudes.size(1) - 1;
  const double place = quantile * static_cast<double>(last);
  const auto low = static_cast<int64_t>(std::floor(place));
  const torch::Tensor sorted = std::get<0>(magnitudes.sort(1));
  const torch::Tensor below = sorted.select(1, low);
  return below +
         (place - static_cast<double>(low)) * (sorted.select(1, std::min(low + 1, last)) - below);
}

}  // namespace

torch::Tensor clipped(const torch::Tensor& data, const Clip& clip) {
  if (!clip.is_dynamic()) return data.clamp(clip.least, clip.most);
  const torch::Tensor threshold = per_sample(
      quantile_of(data.flatten(1).abs(), clip.quantile).clamp(clip.most, clip.cap), data.dim());
  return torch::minimum(torch::maximum(data, -threshold), threshold) * (clip.most / threshold);
}

ModelPtr clipped_model(ModelPtr model, const Clip& clip) {
  clip.validate();
  return std::make_shared<ClippedModel>(std::move(model), clip);
}

std::optional<ClippedParts> clipped_parts(const ModelPtr& model) {
  const auto clipped = std::dynamic_pointer_cast<const ClippedModel>(model);
  return clipped ? std::optional<ClippedParts>(clipped->parts()) : std::optional<ClippedParts>();
}

}  // namespace bespoke
