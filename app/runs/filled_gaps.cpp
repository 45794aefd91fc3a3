#include "runs/filled_gaps.h"

#include <torch/torch.h>

#include <algorithm>

#include "bespoke/measure/joint_flux.h"

namespace bespoke {

FilledGaps::FilledGaps(const OpenModel& open, const ChosenSamples& chosen)
    : open_(open), conditions_(chosen.conditions), count_(chosen.count()) {}

const GappedSound& FilledGaps::sound_of(int64_t sample) const {
  const auto& sounds = open_.utterances->sounds;
  return sounds[static_cast<size_t>(sample) % sounds.size()];
}

torch::Tensor FilledGaps::decode(const torch::Tensor& x, int64_t first) const {
  const int64_t count = x.size(0);
  const torch::Tensor decoded =
      open_.decoder->decode(with_known(x, slice(conditions_, first, first + count)))
          .to(torch::kCPU, torch::kFloat);
  const auto fade =
      static_cast<int64_t>(kFadeSeconds * static_cast<double>(open_.card.sample_rate));
  std::vector<torch::Tensor> sounds;
  for (int64_t i = 0; i < count; ++i) {
    const InfillWindow& window = sound_of(first + i).window;
    sounds.push_back(spliced(window.sound, decoded[i][0], window.gap, fade).unsqueeze(0));
  }
  return torch::stack(sounds);
}

torch::Tensor FilledGaps::recordings(int64_t first, int64_t count) const {
  std::vector<torch::Tensor> sounds;
  for (int64_t i = 0; i < count; ++i) {
    sounds.push_back(sound_of(first + i).window.sound.unsqueeze(0));
  }
  return torch::stack(sounds);
}

torch::Tensor FilledGaps::clips(const torch::Tensor& sounds, int64_t first, int64_t length) const {
  std::vector<torch::Tensor> clips;
  for (int64_t i = 0; i < sounds.size(0); ++i) {
    const Gap& gap = sound_of(first + i).window.gap;
    const int64_t taken = std::min(length, gap.end - gap.begin);
    clips.push_back(
        torch::constant_pad_nd(sounds[i].narrow(1, gap.begin, taken), {0, length - taken}));
  }
  return torch::stack(clips);
}

int64_t FilledGaps::longest() const {
  int64_t most = 0;
  for (const auto& sound : open_.utterances->sounds) {
    most = std::max(most, sound.window.gap.end - sound.window.gap.begin);
  }
  return most;
}

std::vector<double> FilledGaps::joint_flux(const torch::Tensor& sounds, int64_t first) const {
  std::vector<double> values;
  for (int64_t i = 0; i < sounds.size(0); ++i) {
    values.push_back(bespoke::joint_flux(sounds[i][0], sound_of(first + i).window.gap));
  }
  return values;
}

double FilledGaps::recorded_flux() const {
  double sum = 0;
  for (const double value : joint_flux(recordings(0, count_), 0)) sum += value;
  return sum / static_cast<double>(count_);
}

int64_t FilledGaps::clip_length(const CompareOptions& options) const {
  if (options.jury) {
    const auto& shape = options.jury->judges().front().sample_shape();
    if (!shape.empty()) return shape.back();
  }
  return longest();
}

void FilledGaps::apply_to(CompareOptions& options) const {
  options.decode = [this](const torch::Tensor& x, int64_t first) { return decode(x, first); };
  options.filled = 1 - conditions_.at(kKnown).to(torch::kFloat);
  std::vector<torch::Tensor> masks;
  for (int64_t i = 0; i < count_; ++i) {
    const InfillWindow& window = sound_of(i).window;
    const torch::Tensor mask = torch::zeros({1, window.sound.size(0)});
    mask.slice(1, window.gap.begin, window.gap.end).fill_(1);
    masks.push_back(mask);
  }
  options.filled_decoded = torch::stack(masks);
  options.joint_flux = [this](const torch::Tensor& shown, int64_t first) {
    return joint_flux(shown, first);
  };
  const int64_t length = clip_length(options);
  options.judged = [this, length](const torch::Tensor& shown, int64_t first) {
    return clips(shown, first, length);
  };
}

std::vector<TimeSpan> FilledGaps::spans(int64_t begin, int64_t end) const {
  std::vector<TimeSpan> result;
  const auto rate = static_cast<double>(open_.card.sample_rate);
  for (int64_t i = begin; i < end; ++i) {
    const Gap& gap = sound_of(i).window.gap;
    result.push_back({static_cast<double>(gap.begin) / rate, static_cast<double>(gap.end) / rate});
  }
  return result;
}

std::optional<double> recorded_agreement(const FilledGaps& gaps, const CompareOptions& options,
                                         int64_t count) {
  if (!options.jury) return std::nullopt;
  int64_t judged = 0, right = 0;
  for (const auto& verdict :
       options.jury->verdicts(options.judged(gaps.recordings(0, count), 0), 0)) {
    judged += verdict.has_value() ? 1 : 0;
    right += verdict.value_or(false) ? 1 : 0;
  }
  if (judged == 0) return std::nullopt;
  return static_cast<double>(right) / static_cast<double>(judged);
}

}  // namespace bespoke
