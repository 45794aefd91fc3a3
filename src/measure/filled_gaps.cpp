#include "bespoke/measure/filled_gaps.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/measure/joint_flux.h"

namespace bespoke {

FilledGaps::FilledGaps(std::shared_ptr<const GappedSounds> sounds, Conditions conditions,
                       DecoderPtr decoder, int64_t sample_rate, int64_t count)
    : sounds_(std::move(sounds)),
      conditions_(std::move(conditions)),
      decoder_(std::move(decoder)),
      sample_rate_(sample_rate),
      count_(count) {}

const GappedSound& FilledGaps::sound_of(int64_t sample) const {
  return sounds_->sounds[static_cast<size_t>(sample) % sounds_->sounds.size()];
}

torch::Tensor FilledGaps::decode(const torch::Tensor& x, int64_t first) const {
  const int64_t count = x.size(0);
  const torch::Tensor decoded =
      decoder_->decode(with_known(x, slice(conditions_, first, first + count)))
          .to(torch::kCPU, torch::kFloat);
  const auto fade = static_cast<int64_t>(kFadeSeconds * static_cast<double>(sample_rate_));
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

torch::Tensor FilledGaps::filled() const { return 1 - conditions_.at(kKnown).to(torch::kFloat); }

torch::Tensor FilledGaps::filled_sounds() const {
  std::vector<torch::Tensor> masks;
  for (int64_t i = 0; i < count_; ++i) {
    const InfillWindow& window = sound_of(i).window;
    const torch::Tensor mask = torch::zeros({1, window.sound.size(0)});
    mask.slice(1, window.gap.begin, window.gap.end).fill_(1);
    masks.push_back(mask);
  }
  return torch::stack(masks);
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
  for (const auto& sound : sounds_->sounds) {
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

std::vector<TimeSpan> FilledGaps::spans(int64_t begin, int64_t end) const {
  std::vector<TimeSpan> result;
  const auto rate = static_cast<double>(sample_rate_);
  for (int64_t i = begin; i < end; ++i) {
    const Gap& gap = sound_of(i).window.gap;
    result.push_back({static_cast<double>(gap.begin) / rate, static_cast<double>(gap.end) / rate});
  }
  return result;
}

}  // namespace bespoke
