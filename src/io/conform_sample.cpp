#include "conform_sample.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace bespoke {

namespace {

// The longest side that keeps the wanted shape, at least a pixel.
int64_t side(int64_t other, int64_t wanted, int64_t wanted_other, int64_t most) {
  const double exact_side =
      static_cast<double>(other) * static_cast<double>(wanted) / static_cast<double>(wanted_other);
  return std::clamp<int64_t>(std::llround(exact_side), 1, most);
}

torch::Tensor cut_to_shape(const torch::Tensor& image, int64_t height, int64_t width) {
  const int64_t rows = side(image.size(2), height, width, image.size(1));
  const int64_t columns = side(image.size(1), width, height, image.size(2));
  return image.narrow(1, (image.size(1) - rows) / 2, rows)
      .narrow(2, (image.size(2) - columns) / 2, columns);
}

torch::Tensor rounded(const torch::Tensor& values) {
  return values.round().clamp(0, 255).to(torch::kByte);
}

}  // namespace

torch::Tensor conform_image(const torch::Tensor& image, int64_t height, int64_t width) {
  if (image.size(1) == height && image.size(2) == width) return image;
  namespace F = torch::nn::functional;
  const torch::Tensor cut = cut_to_shape(image, height, width).to(torch::kFloat).unsqueeze(0);
  const auto options = F::InterpolateFuncOptions()
                           .size(std::vector<int64_t>{height, width})
                           .mode(torch::kBilinear)
                           .align_corners(false)
                           .antialias(true);
  return rounded(F::interpolate(cut, options).squeeze(0));
}

torch::Tensor conform_colours(const torch::Tensor& image, int64_t channels) {
  if (image.size(0) == channels) return image;
  if (channels == 3) return image.expand({3, image.size(1), image.size(2)});
  const torch::Tensor weights = torch::tensor({0.299, 0.587, 0.114}, torch::kDouble);
  const torch::Tensor luma = (image.to(torch::kDouble) * weights.view({3, 1, 1})).sum(0, true);
  return rounded(luma);
}

torch::Tensor conform_length(const torch::Tensor& sound, int64_t length) {
  const int64_t missing = length - sound.size(1);
  if (missing <= 0) return sound.narrow(1, 0, length);
  return torch::constant_pad_nd(sound, {0, missing});
}

bool can_conform_channels(int64_t from, int64_t to) { return from == to || from == 1 || to == 1; }

torch::Tensor conform_channels(const torch::Tensor& sound, int64_t channels) {
  if (sound.size(0) == channels) return sound;
  if (channels == 1) return sound.mean(0, true);
  return sound.expand({channels, sound.size(1)});
}

}  // namespace bespoke
