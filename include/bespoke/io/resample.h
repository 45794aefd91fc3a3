#pragma once

#include <torch/types.h>

#include <cstdint>

namespace bespoke {

// Brings a sound [..., length] to another sample rate, by a windowed sinc that lets through what
// both rates can hold: float32 [..., ceil(length to / from)], on the CPU. The first sample of both
// is at the same moment.
torch::Tensor resample(const torch::Tensor& sound, int64_t from, int64_t to);

}  // namespace bespoke
