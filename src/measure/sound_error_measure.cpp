#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

// Errors of the latents and of the waveform, in that order, and the powers of the reference.
class SoundErrorMeasure : public Measure {
 public:
  explicit SoundErrorMeasure(const MeasureInputs& inputs)
      : mask_(inputs.mask),
        decoded_mask_(inputs.decoded_mask),
        where_(inputs.gaps ? ", in the filled spans" : "") {}

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples& exact) const override {
    const int64_t first = samples.first();
    return {{masked_errors(samples.drawn(), exact.drawn(), mask_, first),
             masked_errors(samples.shown(), exact.shown(), decoded_mask_, first)}};
  }

  Tally reference_tally(const MeasuredSamples& exact) const override {
    return {{masked_powers(exact.drawn(), mask_, exact.first()),
             masked_powers(exact.shown(), decoded_mask_, exact.first())}};
  }

  FiguresOf against(const Tally& reference) const override {
    return [powers = reference.numbers](const Tally& solver) {
      const auto& errors = solver.numbers;
      return Figures{{"snr_latent_db", mean_snr(errors[0], powers[0])},
                     {"snr_decoded_db", mean_snr(errors[1], powers[1])},
                     {"snr_latent_error_db", standard_error_of(errors[0], powers[0])},
                     {"snr_decoded_error_db", standard_error_of(errors[1], powers[1])}};
    };
  }

  std::vector<FigureColumn> columns(const Figures&) const override {
    return {{"snr_latent_db", FigureKind::decibels, "SNR in dB of the latents" + where_},
            {"snr_decoded_db", FigureKind::decibels, "SNR in dB of the waveform" + where_},
            {"snr_latent_error_db"},
            {"snr_decoded_error_db"}};
  }

 private:
  torch::Tensor mask_, decoded_mask_;
  std::string where_;
};

}  // namespace

MeasurePtr sound_error_measure(const MeasureInputs& inputs) {
  return inputs.decodes_sounds ? std::make_shared<SoundErrorMeasure>(inputs) : nullptr;
}

}  // namespace bespoke
