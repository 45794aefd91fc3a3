#include "bespoke/report/comparison_grid.h"

#include <torch/torch.h>

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/io/image.h"
#include "canvas.h"
#include "heading.h"

namespace bespoke {

namespace {

constexpr double kGridMargin = 28;
constexpr double kGap = 10;
constexpr double kNameSize = 12;
constexpr double kDetailSize = 10.5;
constexpr int64_t kLeastSide = 72;  // of an image, in points; smaller ones are zoomed
constexpr int64_t kSpace = 3;       // between images, in their own zoomed pixels' points

void check_grid(const ComparisonGrid& grid) {
  if (grid.rows.empty()) throw bad_input("the grid '{}' has no rows", grid.title);
  for (const auto& row : grid.rows) {
    if (row.images.sizes() != grid.rows.front().images.sizes()) {
      throw bad_input("the images of '{}' differ in shape from those of '{}'", row.label,
                      grid.rows.front().label);
    }
  }
}

double label_width(const ComparisonGrid& grid) {
  double width = 0;
  for (const auto& row : grid.rows) {
    width = std::max(
        {width, text_width(row.label, kNameSize, true), text_width(row.detail, kDetailSize)});
  }
  return width;
}

// One row of images as RGB bytes, [height, width, 3].
torch::Tensor strip_of(const torch::Tensor& images, int64_t zoom) {
  GridOptions options;
  options.columns = images.size(0);
  options.padding = kSpace;
  options.zoom = zoom;
  const torch::Tensor strip = image_grid(images, options);
  // image_grid frames what it places; between rows that would be twice the space, and grey.
  const torch::Tensor inner = strip.slice(1, kSpace, -kSpace).slice(2, kSpace, -kSpace);
  return inner.expand({3, -1, -1}).permute({1, 2, 0}).contiguous();
}

void draw_strip(Canvas& canvas, double x, double y, const torch::Tensor& strip) {
  const auto* bytes = strip.data_ptr<uint8_t>();
  canvas.image(x, y, {bytes, bytes + strip.numel()}, static_cast<int>(strip.size(1)),
               static_cast<int>(strip.size(0)), 1);
}

void draw_label(Canvas& canvas, double y, const ComparisonGridRow& row) {
  const double shift = row.detail.empty() ? 0 : 9;
  canvas.text(kGridMargin, y - shift, row.label,
              {kNameSize, row.emphasised ? kAccent : kInk, Anchor::start, true});
  if (!row.detail.empty()) canvas.text(kGridMargin, y + shift, row.detail, {kDetailSize, kSoft});
}

}  // namespace

std::string comparison_grid_png(const ComparisonGrid& grid) {
  check_grid(grid);
  const torch::Tensor& first = grid.rows.front().images;
  const int64_t side = first.dim() == 4 ? std::max<int64_t>(first.size(3), 1) : 1;
  const int64_t zoom = std::max<int64_t>(1, (kLeastSide + side - 1) / side);
  std::vector<torch::Tensor> strips;
  for (const auto& row : grid.rows) strips.push_back(strip_of(row.images, zoom));
  const double left = kGridMargin + label_width(grid) + 20;
  const double width = left + double(strips.front().size(1)) + kGridMargin;
  const double step = double(strips.front().size(0)) + kGap;
  const Heading heading(grid.title, grid.caption, width - 2 * kGridMargin);
  Canvas canvas(width, heading.height() + step * double(strips.size()) + kGridMargin - kGap);
  heading.draw(canvas, kGridMargin);
  for (size_t i = 0; i < strips.size(); ++i) {
    const double top = heading.height() + step * double(i);
    draw_label(canvas, top + (step - kGap) / 2, grid.rows[i]);
    draw_strip(canvas, left, top, strips[i]);
  }
  return canvas.png();
}

}  // namespace bespoke
