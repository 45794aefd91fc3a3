#include "bespoke/measure/measure.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "registry.h"

namespace bespoke {

namespace {

// The registry: each makes its measure, or null where the inputs do not suffice. Their figures are
// printed in this order.
constexpr MeasurePtr (*kMeasures[])(const MeasureInputs&) = {
    error_measure,      latent_error_measure, frechet_measure,        sound_error_measure,
    joint_flux_measure, agreement_measure,    guidance_error_measure,
};

}  // namespace

MeasuredSamples::MeasuredSamples(torch::Tensor drawn, int64_t first, int64_t total,
                                 DecodeSamples decode)
    : drawn_(std::move(drawn)), first_(first), total_(total), decode_(std::move(decode)) {}

const torch::Tensor& MeasuredSamples::shown() const {
  if (!decode_) return drawn_;
  if (!shown_.defined()) {
    const torch::NoGradGuard no_grad;
    shown_ = decode_(drawn_, first_);
  }
  return shown_;
}

void Tally::append(const Tally& next) {
  numbers.resize(std::max(numbers.size(), next.numbers.size()));
  for (size_t i = 0; i < next.numbers.size(); ++i) {
    numbers[i].insert(numbers[i].end(), next.numbers[i].begin(), next.numbers[i].end());
  }
  features.resize(std::max(features.size(), next.features.size()));
  for (size_t i = 0; i < next.features.size(); ++i) features[i].add(next.features[i].tensors());
  failed = failed || next.failed;
}

Tally Measure::reference_tally(const MeasuredSamples&) const { return {}; }

Figures Measure::reference_figures(const Tally&) const { return {}; }

std::vector<MeasurePtr> make_measures(const MeasureInputs& inputs) {
  std::vector<MeasurePtr> measures;
  for (const auto make : kMeasures) {
    if (MeasurePtr measure = make(inputs)) measures.push_back(std::move(measure));
  }
  return measures;
}

}  // namespace bespoke
