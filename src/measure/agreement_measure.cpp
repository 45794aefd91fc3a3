#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "registry.h"
#include "sample_errors.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kAgreement[] = "agreement";
constexpr double kNotJudged = std::numeric_limits<double>::quiet_NaN();

// 1 for each sample that shows what its prompt says, 0 for one that does not.
std::vector<double> numbers_of(const std::vector<std::optional<bool>>& verdicts) {
  std::vector<double> numbers;
  for (const auto& verdict : verdicts) {
    numbers.push_back(verdict ? static_cast<double>(*verdict) : kNotJudged);
  }
  return numbers;
}

// Of those that were judged, the part that agrees.
std::optional<double> part_of(const std::vector<double>& numbers) {
  double judged = 0, agreeing = 0;
  for (const double number : numbers) {
    if (std::isnan(number)) continue;
    judged += 1;
    agreeing += number;
  }
  return judged > 0 ? std::optional<double>(agreeing / judged) : std::nullopt;
}

Figures figures_of(const Tally& tally) {
  const auto part = part_of(tally.numbers.front());
  return part ? Figures{{kAgreement, *part}} : Figures();
}

class AgreementMeasure : public Measure {
 public:
  AgreementMeasure(std::shared_ptr<const Jury> jury, std::shared_ptr<const FilledGaps> gaps)
      : jury_(std::move(jury)), gaps_(std::move(gaps)) {
    if (gaps_) recorded_ = part_of(verdicts_on(gaps_->recordings(0, gaps_->count()), 0));
  }

  Tally tally(const MeasuredSamples& samples, const MeasuredSamples&) const override {
    const torch::Tensor& shown = samples.shown();
    // Samples so far off that a classifier makes no numbers of them show nothing.
    Tally result = {{std::vector<double>(static_cast<size_t>(shown.size(0)), 0)}};
    stays_finite([&] { result.numbers = {verdicts_on(shown, samples.first())}; });
    return result;
  }

  Tally reference_tally(const MeasuredSamples& exact) const override {
    return {{verdicts_on(exact.shown(), exact.first())}};
  }

  FiguresOf against(const Tally&) const override { return figures_of; }

  // A solver can hardly do better than the model itself.
  Figures reference_figures(const Tally& reference) const override { return figures_of(reference); }

  std::vector<FigureColumn> columns(const Figures& reference) const override {
    const auto part = reference.find(kAgreement);
    if (part == reference.end()) return {};
    FigureColumn column = {kAgreement, FigureKind::fraction};
    column.title =
        fmt::format("{}, in %", recorded_ ? "filled spans in which the right word is recognised"
                                          : "samples that show what their prompt says");
    column.remark = fmt::format("; of the reference's {:.1f}", 100 * part->second);
    if (recorded_) column.remark += fmt::format(", of the recordings' {:.1f}", 100 * *recorded_);
    return {column};
  }

 private:
  // Where gaps were filled, the jury is given what was filled in.
  std::vector<double> verdicts_on(const torch::Tensor& shown, int64_t first) const {
    return numbers_of(
        jury_->verdicts(gaps_ ? gaps_->clips(shown, first, clip_length()) : shown, first));
  }

  int64_t clip_length() const {
    const auto& taught = jury_->judges().front().sample_shape();
    return taught.empty() ? gaps_->longest() : taught.back();
  }

  std::shared_ptr<const Jury> jury_;
  std::shared_ptr<const FilledGaps> gaps_;  // null where samples are judged as they are
  std::optional<double> recorded_;          // of the recordings themselves
};

}  // namespace

MeasurePtr agreement_measure(const MeasureInputs& inputs) {
  return inputs.jury ? std::make_shared<AgreementMeasure>(inputs.jury, inputs.gaps) : nullptr;
}

}  // namespace bespoke
