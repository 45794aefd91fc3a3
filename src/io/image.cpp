#include "bespoke/io/image.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

constexpr int64_t kBackground = 240;

torch::Tensor placed(const torch::Tensor& images, int64_t columns, int64_t padding) {
  const int64_t count = images.size(0);
  const int64_t height = images.size(2);
  const int64_t width = images.size(3);
  const int64_t rows = (count + columns - 1) / columns;
  torch::Tensor grid = torch::full(
      {images.size(1), rows * (height + padding) + padding, columns * (width + padding) + padding},
      kBackground, images.options());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = i / columns * (height + padding) + padding;
    const int64_t left = i % columns * (width + padding) + padding;
    grid.narrow(1, top, height).narrow(2, left, width).copy_(images[i]);
  }
  return grid;
}

torch::Tensor zoomed(const torch::Tensor& images, int64_t zoom) {
  const int64_t count = images.size(0);
  const int64_t channels = images.size(1);
  const int64_t height = images.size(2);
  const int64_t width = images.size(3);
  return images.reshape({count, channels, height, 1, width, 1})
      .expand({count, channels, height, zoom, width, zoom})
      .reshape({count, channels, height * zoom, width * zoom});
}

}  // namespace

torch::Tensor to_bytes(const torch::Tensor& x, double least, double most) {
  if (!(least < most) || !std::isfinite(most - least)) {
    throw usage_error("bytes are made from a range with least < most, found {} and {}", least,
                      most);
  }
  const torch::Tensor unit = (x.detach().to(torch::kDouble) - least) / (most - least);
  return (unit * 255 + 0.5).floor().clamp(0, 255).nan_to_num().to(torch::kByte);
}

int64_t zoom_to_see(const torch::Tensor& images) {
  constexpr int64_t kSeen = 128;
  return std::max<int64_t>(1, kSeen / std::max(images.size(-2), images.size(-1)));
}

torch::Tensor image_grid(const torch::Tensor& images, const GridOptions& options) {
  const bool fits = images.scalar_type() == torch::kByte && images.dim() == 4 &&
                    images.numel() > 0 && (images.size(1) == 1 || images.size(1) == 3);
  if (!fits) {
    throw bad_input(
        "a grid takes uint8 of shape [count, 1 or 3, height, width], found {} of shape {}",
        torch::toString(images.scalar_type()), images.sizes().vec());
  }
  if (options.columns < 0 || options.padding < 0 || options.zoom < 1) {
    throw usage_error(
        "a grid needs columns and padding from 0 and zoom from 1, found {}, {} and {}",
        options.columns, options.padding, options.zoom);
  }
  const int64_t count = images.size(0);
  const auto square = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t columns = options.columns == 0 ? square : std::min(options.columns, count);
  return placed(zoomed(images, options.zoom), columns, options.padding);
}

}  // namespace bespoke
