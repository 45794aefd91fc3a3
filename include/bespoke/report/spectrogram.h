#pragma once

#include <torch/types.h>

#include <optional>

#include "bespoke/base/time_span.h"

namespace bespoke {

// A sound [length] as a picture, uint8 [3, height, width]: time to the right, pitch upwards, 60 dB
// from black to the loudest. A span is marked by lines at its ends and a bar above it.
torch::Tensor spectrogram_image(const torch::Tensor& sound, int sample_rate,
                                const std::optional<TimeSpan>& marked = std::nullopt);

}  // namespace bespoke
