#include "bespoke/recipe/infill.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/sample_rate.h"
#include "bespoke/io/resample.h"

namespace bespoke {

namespace {

int64_t window_length(const ModelCard& card) { return card.decoder->sample_shape.back(); }

double in_seconds(int64_t samples, const ModelCard& card) {
  return static_cast<double>(samples) / static_cast<double>(card.sample_rate);
}

void refuse_long_span(double seconds, const ModelCard& card) {
  const double most = in_seconds(window_length(card), card);
  if (seconds < most) return;
  throw bad_input("the span has {:.3g} s; the model fills less than {:g} s at a time", seconds,
                  most);
}

void check_gap(const torch::Tensor& sound, const Gap& gap, const ModelCard& card) {
  const int64_t length = sound.size(0);
  const double begin = in_seconds(gap.begin, card), end = in_seconds(gap.end, card);
  if (gap.begin >= gap.end) {
    throw bad_input("the span {:g}-{:g} s is empty; write it as FROM-TO in seconds", begin, end);
  }
  if (gap.begin < 0 || gap.end > length) {
    throw bad_input("the span {:g}-{:g} s is not in the sound, which has {:.3g} s", begin, end,
                    in_seconds(length, card));
  }
  refuse_long_span(in_seconds(gap.end - gap.begin, card), card);
}

// Resampling takes memory by the rate that a file claims to have.
void check_rate(const WavFile& file) {
  if (is_sample_rate(file.sample_rate)) return;
  throw bad_input("the sound has {} Hz, and {} to {} Hz are read; resample it first",
                  file.sample_rate, kLeastSampleRate, kMostSampleRate);
}

// What scales the sound around the gap to the model's level. The gap itself must not be asked.
double gain_of(const torch::Tensor& window, const Gap& gap, const ModelCard& card) {
  constexpr double kSilence = 1e-5;  // a third of what 16 bits can tell apart
  const torch::Tensor around =
      torch::cat({window.slice(0, 0, gap.begin), window.slice(0, gap.end)});
  const double heard = around.ne(0).sum().item<double>();
  const double power = around.to(torch::kDouble).square().sum().item<double>();
  const double level = heard > 0 ? std::sqrt(power / heard) : 0;
  if (!(level > kSilence)) {
    throw bad_input(
        "nothing is heard around the span; the model needs some of the voice it continues");
  }
  return card.encoder->level > 0 ? card.encoder->level / level : 1;
}

}  // namespace

InfillWindow window_around(const torch::Tensor& sound, const Gap& gap, const ModelCard& card) {
  check_gap(sound, gap, card);
  const int64_t length = sound.size(0), most = window_length(card);
  const int64_t middle = (gap.begin + gap.end) / 2;
  InfillWindow window;
  window.begin = std::clamp(middle - most / 2, int64_t{0}, std::max(int64_t{0}, length - most));
  window.heard = std::min(most, length - window.begin);
  window.gap = {gap.begin - window.begin, gap.end - window.begin};
  const torch::Tensor cut = sound.narrow(0, window.begin, window.heard);
  window.gain = gain_of(cut, window.gap, card);
  window.sound = torch::constant_pad_nd(cut.to(torch::kCPU, torch::kFloat) * window.gain,
                                        {0, most - window.heard});
  return window;
}

torch::Tensor known_frames(const Gap& gap, const ModelCard& card) {
  const int64_t frames = card.sample_shape[1], hop = window_length(card) / frames;
  const int64_t margin = card.encoder->margin;
  const int64_t first = std::max(int64_t{0}, gap.begin / hop - margin);
  const int64_t last = std::min(frames, (gap.end + hop - 1) / hop + margin);
  torch::Tensor heard = torch::ones({1, frames});
  heard.slice(1, first, last).zero_();
  return heard;
}

Conditions gap_conditions(const std::vector<InfillWindow>& windows, const Encoder& encoder,
                          const ModelCard& card) {
  constexpr int64_t kBatch = 64;
  std::vector<torch::Tensor> sounds, known, latents;
  for (const auto& window : windows) {
    const torch::Tensor sound = window.sound.clone();
    sound.slice(0, window.gap.begin, window.gap.end).zero_();
    sounds.push_back(sound.unsqueeze(0));
    known.push_back(known_frames(window.gap, card));
  }
  for (const auto& batch : torch::stack(sounds).split(kBatch)) {
    latents.push_back(encoder.encode(batch).to(torch::kCPU, torch::kFloat));
  }
  const torch::Tensor all = torch::stack(known);
  return {{kVisible, torch::cat(latents) * all}, {kKnown, all}};
}

torch::Tensor with_known(const torch::Tensor& x, const Conditions& conditions) {
  const auto given = [&](const char* name) { return conditions.at(name).to(x.device()); };
  return torch::where(given(kKnown) > 0.5, given(kVisible).to(x.scalar_type()), x);
}

torch::Tensor spliced(const torch::Tensor& sound, const torch::Tensor& filled, const Gap& gap,
                      int64_t fade) {
  const torch::Tensor place = torch::arange(sound.size(0), torch::kDouble);
  // 1 in the gap, 0 beyond the fades, and cosines between them.
  const torch::Tensor outside = torch::maximum(static_cast<double>(gap.begin) - place,
                                               place - static_cast<double>(gap.end - 1));
  const double over = static_cast<double>(fade + 1);
  const torch::Tensor share = 0.5 + 0.5 * ((outside / over).clamp(0, 1) * std::acos(-1.0)).cos();
  const torch::Tensor mixed =
      share * filled.to(torch::kDouble) + (1 - share) * sound.to(torch::kDouble);
  return torch::where(outside < over, mixed, sound.to(torch::kDouble)).to(sound.scalar_type());
}

SoundToFill prepare_sound(const WavFile& file, const TimeSpan& span, const ModelCard& card) {
  check_rate(file);
  SoundToFill result;
  result.sound = file.audio.mean(0);
  result.sample_rate = file.sample_rate;
  if (!result.sound.isfinite().all().item<bool>()) {
    throw bad_input("the sound has values that are not finite numbers");
  }
  const double rate = file.sample_rate;
  const auto model_rate = static_cast<double>(card.sample_rate);
  const int64_t length = result.sound.size(0);
  const double seconds = static_cast<double>(length) / rate;
  // A rounding beyond the last sample is none.
  if (span.from < 0 || span.to > seconds + 0.5 / rate) {
    throw bad_input("the span {:g}-{:g} s is not in the sound, which has {:.3g} s", span.from,
                    span.to, seconds);
  }
  refuse_long_span(span.to - span.from, card);
  const auto at = [](double time, double hertz) {
    return static_cast<int64_t>(std::llround(time * hertz));
  };
  result.gap = {at(span.from, rate), std::min(length, at(span.to, rate))};

  // The sound has as much on either side of the span as a window can hold.
  const double reach = in_seconds(window_length(card), card);
  const int64_t first = std::max(int64_t{0}, at(span.from - reach, rate));
  const int64_t last = std::min(length, at(span.to + reach, rate));
  const torch::Tensor near =
      resample(result.sound.slice(0, first, last), file.sample_rate, card.sample_rate);
  const double offset = static_cast<double>(first) / rate;
  const Gap gap = {at(span.from - offset, model_rate),
                   std::min(near.size(0), std::max(at(span.to - offset, model_rate),
                                                   at(span.from - offset, model_rate) + 1))};
  result.window = window_around(near, gap, card);
  result.begin = first + at(static_cast<double>(result.window.begin) / model_rate, rate);
  return result;
}

torch::Tensor filled_sound(const SoundToFill& sound, const torch::Tensor& decoded,
                           const ModelCard& card) {
  const torch::Tensor piece =
      resample(decoded / sound.window.gain, card.sample_rate, sound.sample_rate);
  // Only the window is spliced: the sound may be hours long.
  torch::Tensor filled = sound.sound.clone();
  const int64_t length = std::min(piece.size(0), filled.size(0) - sound.begin);
  const torch::Tensor window = filled.narrow(0, sound.begin, length);
  const Gap gap = {sound.gap.begin - sound.begin, sound.gap.end - sound.begin};
  const auto fade = static_cast<int64_t>(kFadeSeconds * sound.sample_rate);
  window.copy_(spliced(window, piece.narrow(0, 0, length), gap, fade));
  return filled;
}

}  // namespace bespoke
