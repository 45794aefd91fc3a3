#include <fmt/format.h>

#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

// Errors in the space that figures are of, and the powers of the reference there.
class ErrorMeasure : public Measure {
 public:
  explicit ErrorMeasure(const MeasureInputs& inputs)
      : decoded_(inputs.decoded),
        peak_(inputs.peak),
        mask_(decoded_ ? inputs.decoded_mask : inputs.mask),
        counted_(inputs.counted) {}

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples& exact) const override {
    return {{masked_errors(seen(samples), seen(exact), mask_, samples.first())}};
  }

  Tally reference_tally(const MeasuredSamples& exact) const override {
    return {{masked_powers(seen(exact), mask_, exact.first())}};
  }

  FiguresOf against(const Tally& reference) const override {
    return [peak = peak_, powers = reference.numbers.front()](const Tally& solver) {
      const std::vector<double>& errors = solver.numbers.front();
      return Figures{
          {"psnr_db", mean_psnr(errors, peak)}, {"psnr_error_db", standard_error_of(errors)},
          {"snr_db", mean_snr(errors, powers)}, {"snr_error_db", standard_error_of(errors, powers)},
          {"mse_p05", quantile(errors, 0.05)},  {"mse_median", quantile(errors, 0.5)},
          {"mse_p95", quantile(errors, 0.95)}};
    };
  }

  std::vector<FigureColumn> columns(const Figures&) const override {
    FigureColumn psnr = {"psnr_db"};
    psnr.title = fmt::format("PSNR in dB (peak-to-peak {:g}, {} space{})", peak_,
                             decoded_ ? "decoded" : "sample", counted_);
    psnr.error = "psnr_error_db";
    return {psnr,
            {"psnr_error_db"},
            {"snr_db"},
            {"snr_error_db"},
            {"mse_p05", FigureKind::squared_error},
            {"mse_median", FigureKind::squared_error},
            {"mse_p95", FigureKind::squared_error}};
  }

 private:
  const torch::Tensor& seen(const MeasuredSamples& samples) const {
    return decoded_ ? samples.shown() : samples.drawn();
  }

  bool decoded_;
  double peak_;
  torch::Tensor mask_;
  std::string counted_;
};

}  // namespace

MeasurePtr error_measure(const MeasureInputs& inputs) {
  return std::make_shared<ErrorMeasure>(inputs);
}

}  // namespace bespoke
