#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace bespoke {

// What a convolution sees: three by three pixels or, of sounds, which are images one pixel high,
// three in a row.
struct Window {
  bool rows;
};

torch::nn::Conv2d convolution(Window window, int64_t in, int64_t out, int64_t stride = 1);

// With as many groups, up to 32, as divide the channels.
torch::nn::GroupNorm group_norm(int64_t channels);

}  // namespace bespoke
