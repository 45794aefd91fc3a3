#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "bespoke/base/time_span.h"
#include "bespoke/io/wav.h"
#include "bespoke/model/card.h"
#include "bespoke/model/model.h"
#include "bespoke/model/network.h"

namespace bespoke {

// Filling a gap in a sound by a model whose card has an encoder.

// Samples begin ... end - 1 of a sound.
struct Gap {
  int64_t begin = 0, end = 0;
};

// The part of a sound that the model is given: as long as its samples, with the gap in it.
struct InfillWindow {
  torch::Tensor sound;  // float32 [length], at the level of the model's card, with what the gap had
  Gap gap;              // in the window
  int64_t begin = 0;    // where the window begins in the sound
  int64_t heard = 0;    // how much of it is the sound: what is shorter is padded with silence
  double gain = 1;      // window = gain * sound
};

// The window around a gap of a sound [length] at the model's rate: the gap in its middle where the
// sound is long enough on both sides. Bad input: a gap that is empty, not in the sound or longer
// than the window, and silence around it.
InfillWindow window_around(const torch::Tensor& sound, const Gap& gap, const ModelCard& card);

// Which frames are known: 1, or 0 where the encoder sees the gap in one, float32 [1, frames].
torch::Tensor known_frames(const Gap& gap, const ModelCard& card);

// The conditions kVisible and kKnown of windows. Nothing of what the gap had is in them.
Conditions gap_conditions(const std::vector<InfillWindow>& windows, const Encoder& encoder,
                          const ModelCard& card);

// Puts what is known back into the model's samples; conditions as gap_conditions gives them.
torch::Tensor with_known(const torch::Tensor& x, const Conditions& conditions);

// A sound [length] with its gap from `filled`, of the same length, and all else as it was but for
// `fade` samples on either side of the gap, over which one passes into the other.
torch::Tensor spliced(const torch::Tensor& sound, const torch::Tensor& filled, const Gap& gap,
                      int64_t fade);

// A span of a sound file, ready for the model and for the way back.
struct SoundToFill {
  torch::Tensor sound;  // float32 [length], at the file's own rate, mixed down
  int sample_rate = 0;
  Gap gap;              // at that rate
  InfillWindow window;  // at the model's
  int64_t begin = 0;    // of the window, at the file's rate
};

// Other rates are resampled, but only around the span: a file may be hours long. Bad input as of
// window_around, and a file whose numbers are not finite.
SoundToFill prepare_sound(const WavFile& file, const TimeSpan& span, const ModelCard& card);

// Seconds over which what is filled in passes into what was there.
constexpr double kFadeSeconds = 0.01;

// The file's sound with its gap from `decoded` [window's length], what the model made of the
// window.
torch::Tensor filled_sound(const SoundToFill& sound, const torch::Tensor& decoded,
                           const ModelCard& card);

}  // namespace bespoke
