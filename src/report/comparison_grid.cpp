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
      throw bad_input("the images of '{}' differ in shape from those of '{}'", row.label.name,
                      grid.rows.front().label.name);
    }
  }
  const auto columns = static_cast<int64_t>(grid.columns.size());
  if (columns != 0 && columns != grid.rows.front().images.size(0)) {
    throw bad_input("the grid '{}' names {} columns of {}", grid.title, columns,
                    grid.rows.front().images.size(0));
  }
}

double label_width(const ComparisonGrid& grid) {
  double width = 0;
  for (const auto& row : grid.rows) {
    width = std::max({width, text_width(row.label.name, kNameSize, true),
                      text_width(row.label.detail, kDetailSize)});
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

void draw_row_label(Canvas& canvas, double y, const ComparisonGridLabel& label) {
  const double shift = label.detail.empty() ? 0 : 9;
  canvas.text(kGridMargin, y - shift, label.name,
              {kNameSize, label.emphasised ? kAccent : kInk, Anchor::start, true});
  if (!label.detail.empty()) {
    canvas.text(kGridMargin, y + shift, label.detail, {kDetailSize, kSoft});
  }
}

// The labels over the columns, each in lines no wider than its column.
class ColumnLabels {
 public:
  ColumnLabels(const std::vector<ComparisonGridLabel>& labels, double width) : width_(width) {
    for (const auto& label : labels) {
      columns_.push_back({breakable(label.name, width), wrapped(label.detail, kDetailSize, width),
                          label.emphasised});
      most_ = std::max(most_, columns_.back().name.size() + columns_.back().detail.size());
    }
  }

  double height() const { return columns_.empty() ? 0 : kLine * double(most_) + 4; }

  void draw(Canvas& canvas, double left, double bottom, double step) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Column& column = columns_[i];
      const double x = left + step * double(i) + width_ / 2;
      double y = bottom - kLine * (double(column.name.size() + column.detail.size()) - 0.5) - 4;
      const auto write = [&](const std::vector<std::string>& lines, const TextStyle& style) {
        for (const auto& line : lines) {
          canvas.text(x, y, line, style);
          y += kLine;
        }
      };
      write(column.name, {kDetailSize, column.emphasised ? kAccent : kInk, Anchor::middle, true});
      write(column.detail, {kDetailSize, kSoft, Anchor::middle});
    }
  }

 private:
  struct Column {
    std::vector<std::string> name, detail;
    bool emphasised = false;
  };

  // Names of solvers have no spaces: they may break after what parts them. Bold letters are about
  // an eighth wider than those that `wrapped` measures.
  static std::vector<std::string> breakable(const std::string& name, double width) {
    std::string spaced;
    for (const char c : name) {
      spaced += c;
      if (c == '/' || c == ':' || c == ',') spaced += ' ';
    }
    return wrapped(spaced, kDetailSize, width / 1.125);
  }

  static constexpr double kLine = 14;
  std::vector<Column> columns_;
  size_t most_ = 0;
  double width_;
};

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
  const double column = double(zoom * side);
  const ColumnLabels labels(grid.columns, column);
  const double begin = heading.height() + labels.height();
  Canvas canvas(width, begin + step * double(strips.size()) + kGridMargin - kGap);
  heading.draw(canvas, kGridMargin);
  labels.draw(canvas, left, begin, column + double(kSpace));
  for (size_t i = 0; i < strips.size(); ++i) {
    const double top = begin + step * double(i);
    draw_row_label(canvas, top + (step - kGap) / 2, grid.rows[i].label);
    draw_strip(canvas, left, top, strips[i]);
  }
  return canvas.png();
}

}  // namespace bespoke
