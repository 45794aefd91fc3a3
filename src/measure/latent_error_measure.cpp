#include <fmt/format.h>

#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

class LatentErrorMeasure : public Measure {
 public:
  explicit LatentErrorMeasure(const MeasureInputs& inputs)
      : peak_(inputs.latent_peak), mask_(inputs.mask) {}

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples& exact) const override {
    return {{masked_errors(samples.drawn(), exact.drawn(), mask_, samples.first())}};
  }

  FiguresOf against(const Tally&) const override {
    return [peak = peak_](const Tally& solver) {
      const std::vector<double>& errors = solver.numbers.front();
      return Figures{{"latent_psnr_db", mean_psnr(errors, peak)},
                     {"latent_psnr_error_db", standard_error_of(errors)}};
    };
  }

  std::vector<FigureColumn> columns(const Figures&) const override {
    FigureColumn psnr = {"latent_psnr_db"};
    psnr.title = fmt::format("PSNR in dB of the latents themselves (peak-to-peak {:g})", peak_);
    return {psnr, {"latent_psnr_error_db"}};
  }

 private:
  double peak_;
  torch::Tensor mask_;
};

}  // namespace

MeasurePtr latent_error_measure(const MeasureInputs& inputs) {
  return inputs.decoded ? std::make_shared<LatentErrorMeasure>(inputs) : nullptr;
}

}  // namespace bespoke
