#pragma once

#include <torch/types.h>

#include <cstdint>

namespace bespoke {

// An image, uint8 [channels, height, width], at another size: cut in the middle to the wanted
// shape, then resized by a bilinear filter as wide as the pixels it merges.
torch::Tensor conform_image(const torch::Tensor& image, int64_t height, int64_t width);

// Grey to RGB or back, by the luma of BT.601.
torch::Tensor conform_colours(const torch::Tensor& image, int64_t channels);

// A sound, float32 [channels, length], cut at its end or padded with silence.
torch::Tensor conform_length(const torch::Tensor& sound, int64_t length);

// Whether conform_channels can: from and to one channel, by their mean and by copies.
bool can_conform_channels(int64_t from, int64_t to);
torch::Tensor conform_channels(const torch::Tensor& sound, int64_t channels);

}  // namespace bespoke
