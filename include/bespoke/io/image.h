#pragma once

#include <torch/types.h>

#include <cstdint>

namespace bespoke {

// Turns samples in [least, most] into bytes 0 to 255: clamped, rounded half up; NaN becomes 0.
torch::Tensor to_bytes(const torch::Tensor& x, double least, double most);

// How images are laid out.
struct GridOptions {
  int64_t columns = 0;  // 0: about square; never more than there are images
  int64_t padding = 2;  // pixels between the images and around them, not zoomed
  int64_t zoom = 1;     // every pixel becomes a square of zoom x zoom
};

// The zoom that shows small images large enough to be looked at: the longer side of `images`
// [..., height, width] comes to a hundred pixels or so.
int64_t zoom_to_see(const torch::Tensor& images);

// Lays out the images, uint8 [count, 1 or 3, height, width], row by row on a light background as
// one image [1 or 3, height, width].
torch::Tensor image_grid(const torch::Tensor& images, const GridOptions& options = {});

}  // namespace bespoke
