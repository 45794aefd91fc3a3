#include <fmt/format.h>
#include <torch/torch.h>

#include <limits>

#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

std::string figure_name(const char* what, const GuidanceRange& bin) {
  return fmt::format("{}_w_{:g}_to_{:g}", what, bin.from, bin.to);
}

// Which bin each sample's own weight is in: an edge belongs to the bin above it.
std::vector<size_t> bins_of_samples(const std::vector<GuidanceRange>& bins,
                                    const torch::Tensor& guidance_weights) {
  const torch::Tensor weights = guidance_weights.to(torch::kCPU, torch::kDouble).contiguous();
  std::vector<size_t> places;
  for (int64_t i = 0; i < weights.numel(); ++i) {
    size_t place = 0;
    while (place + 1 < bins.size() && weights.data_ptr<double>()[i] >= bins[place].to) ++place;
    places.push_back(place);
  }
  return places;
}

class GuidanceErrorMeasure : public Measure {
 public:
  explicit GuidanceErrorMeasure(const MeasureInputs& inputs)
      : errors_(error_measure(inputs)),
        peak_(inputs.peak),
        bins_(inputs.guidance_bins),
        places_(bins_of_samples(bins_, inputs.guidance_weights)) {}

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples& exact) const override {
    return errors_->tally(samples, exact);
  }

  FiguresOf against(const Tally&) const override {
    return [bins = bins_, places = places_, peak = peak_](const Tally& solver) {
      std::vector<std::vector<double>> errors(bins.size());
      for (size_t i = 0; i < places.size(); ++i) {
        errors[places[i]].push_back(solver.numbers.front()[i]);
      }
      Figures figures;
      for (size_t k = 0; k < bins.size(); ++k) {
        if (errors[k].empty()) continue;
        figures[figure_name("psnr_db", bins[k])] = mean_psnr(errors[k], peak);
        figures[figure_name("psnr_error_db", bins[k])] = standard_error_of(errors[k]);
      }
      return figures;
    };
  }

  std::vector<FigureColumn> columns(const Figures&) const override {
    std::vector<FigureColumn> columns;
    for (const auto& bin : bins_) columns.push_back({figure_name("psnr_error_db", bin)});
    for (const auto& bin : bins_) {
      FigureColumn psnr = {figure_name("psnr_db", bin)};
      psnr.title = "PSNR in dB by guidance w (guidance_scale is 1 + w)";
      psnr.heading = fmt::format("{:g} to {:g}", bin.from, bin.to);
      columns.push_back(psnr);
    }
    return columns;
  }

 private:
  MeasurePtr errors_;
  double peak_;
  std::vector<GuidanceRange> bins_;
  std::vector<size_t> places_;  // each sample's bin
};

}  // namespace

MeasurePtr guidance_error_measure(const MeasureInputs& inputs) {
  return inputs.guidance_bins.empty() ? nullptr : std::make_shared<GuidanceErrorMeasure>(inputs);
}

}  // namespace bespoke
