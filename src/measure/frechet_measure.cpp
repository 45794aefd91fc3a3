#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kToReference[] = "fd_ref", kToReal[] = "fd_real";
// What chance makes of a distance: that of two halves of the reference's samples.
constexpr char kNoise[] = "fd_noise";

FeatureAccumulator accumulated(const torch::Tensor& features) {
  FeatureAccumulator accumulator;
  accumulator.add(features);
  return accumulator;
}

class FrechetMeasure : public Measure {
 public:
  explicit FrechetMeasure(const MeasureInputs& inputs)
      : count_(inputs.count),
        features_(inputs.features),
        features_name_(inputs.features_name),
        real_name_(inputs.real_name) {
    if (!inputs.real) return;
    real_count_ = inputs.real->count;
    from_real_ = std::make_shared<FrechetDistance>(*inputs.real);
  }

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples&) const override {
    const torch::Tensor& shown = samples.shown();
    Tally result;
    result.failed = !stays_finite([&] { result.features = {accumulated(features_(shown))}; });
    return result;
  }

  // Each half of the samples apart, for the distance between them.
  Tally reference_tally(const MeasuredSamples& exact) const override {
    const torch::Tensor features = features_of_sound(features_, exact.shown());
    const int64_t cut = std::clamp<int64_t>(exact.total() / 2 - exact.first(), 0, features.size(0));
    Tally result;
    result.features = {accumulated(features.slice(0, 0, cut)), accumulated(features.slice(0, cut))};
    return result;
  }

  FiguresOf against(const Tally& reference) const override {
    const auto from_reference = std::make_shared<FrechetDistance>(statistics_of(reference));
    return [from_reference, from_real = from_real_](const Tally& solver) {
      if (solver.failed) return Figures();
      const FeatureStatistics statistics = solver.features.front().statistics();
      Figures figures = {{kToReference, from_reference->to(statistics)}};
      if (from_real) figures[kToReal] = from_real->to(statistics);
      return figures;
    };
  }

  // No solver can be expected to come nearer to real data than the model itself does.
  Figures reference_figures(const Tally& reference) const override {
    Figures figures;
    if (const auto noise = sampling_noise(reference.features[0], reference.features[1])) {
      figures[kNoise] = *noise;
    }
    if (from_real_) figures[kToReal] = from_real_->to(statistics_of(reference));
    return figures;
  }

  std::vector<FigureColumn> columns(const Figures& reference) const override {
    FigureColumn to_reference = {kToReference, FigureKind::distance};
    to_reference.title = fmt::format("Fréchet distance to the reference's samples ({} samples, {})",
                                     count_, features_name_);
    const auto noise = reference.find(kNoise);
    if (noise != reference.end()) {
      to_reference.title += fmt::format("; two halves of these are {:.4g} apart", noise->second);
    }
    if (!from_real_) return {to_reference};
    FigureColumn to_real = {kToReal, FigureKind::distance};
    to_real.title = fmt::format(
        "Fréchet distance to the real data {} ({} of them, {} samples, {}); the reference's is "
        "{:.4g}",
        real_name_, real_count_, count_, features_name_, reference.at(kToReal));
    return {to_reference, to_real};
  }

 private:
  static FeatureStatistics statistics_of(const Tally& reference) {
    FeatureAccumulator both;
    for (const FeatureAccumulator& half : reference.features) both.add(half.tensors());
    return both.statistics();
  }

  int64_t count_, real_count_ = 0;
  FeatureFunction features_;
  std::string features_name_, real_name_;
  std::shared_ptr<const FrechetDistance> from_real_;  // null where there is no real data
};

}  // namespace

MeasurePtr frechet_measure(const MeasureInputs& inputs) {
  return inputs.features ? std::make_shared<FrechetMeasure>(inputs) : nullptr;
}

}  // namespace bespoke
