#include <fmt/format.h>

#include <utility>

#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kFlux[] = "joint_flux_db";

class JointFluxMeasure : public Measure {
 public:
  explicit JointFluxMeasure(std::shared_ptr<const FilledGaps> gaps)
      : gaps_(std::move(gaps)),
        recorded_(mean_of(gaps_->joint_flux(gaps_->recordings(0, gaps_->count()), 0))) {}

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples&) const override {
    return reference_tally(samples);
  }

  Tally reference_tally(const MeasuredSamples& exact) const override {
    return {{gaps_->joint_flux(exact.shown(), exact.first())}};
  }

  FiguresOf against(const Tally&) const override {
    return [](const Tally& solver) { return Figures{{kFlux, mean_of(solver.numbers.front())}}; };
  }

  Figures reference_figures(const Tally& reference) const override {
    return {{kFlux, mean_of(reference.numbers.front())}};
  }

  std::vector<FigureColumn> columns(const Figures& reference) const override {
    return {{kFlux, FigureKind::decibels,
             fmt::format("spectral flux at the joints in dB; the reference's {:.2f}, the "
                         "recordings' {:.2f}",
                         reference.at(kFlux), recorded_)}};
  }

 private:
  std::shared_ptr<const FilledGaps> gaps_;
  double recorded_;  // the mean of the recordings themselves
};

}  // namespace

MeasurePtr joint_flux_measure(const MeasureInputs& inputs) {
  return inputs.gaps ? std::make_shared<JointFluxMeasure>(inputs.gaps) : nullptr;
}

}  // namespace bespoke
