#include "bespoke/report/comparison_grid.h"

#include <torch/torch.h>

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/io/png.h"
#include "heading.h"
#include "svg.h"

namespace bespoke {

namespace {

constexpr double kGridMargin = 28;
constexpr double kGap = 10;
constexpr double kNameSize = 12;
constexpr double kDetailSize = 10.5;
constexpr int64_t kLeastSide = 72;  // of an image, in points; smaller ones are zoomed
constexpr int64_t kSpace = 3;       // between images

void check_grid(const ComparisonGrid& grid) {
  if (grid.rows.empty()) throw bad_input("the grid '{}' has no rows", grid.title);
  for (const auto& row : grid.rows) {
    if (row.images.dim() != 4) throw bad_input("'{}' has no images", row.label.name);
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

// One row of images, each pixel a square of `zoom` points: in the PNG itself, since not all that
// draws SVG leaves small images their pixels.
void draw_strip(Svg& svg, double x, double y, const torch::Tensor& images, int64_t zoom) {
  const torch::Tensor large = images.repeat_interleave(zoom, 2).repeat_interleave(zoom, 3);
  const auto width = double(large.size(3)), height = double(large.size(2));
  for (int64_t i = 0; i < large.size(0); ++i) {
    svg.image(x + double(i) * (width + double(kSpace)), y, width, height, encode_png(large[i]));
  }
}

void draw_row_label(Svg& svg, double y, const ComparisonGridLabel& label) {
  const double shift = label.detail.empty() ? 0 : 9;
  svg.text(kGridMargin, y - shift, label.name,
           {kNameSize, label.emphasised ? kAccent : kInk, Anchor::start, true});
  if (!label.detail.empty()) {
    svg.text(kGridMargin, y + shift, label.detail, {kDetailSize, kSoft});
  }
}

// The labels over the columns, each in lines no wider than its column.
class ColumnLabels {
 public:
  ColumnLabels(const std::vector<ComparisonGridLabel>& labels, double width) : width_(width) {
    for (const auto& label : labels) {
      columns_.push_back({name_lines(label.name, kDetailSize, width, true),
                          wrapped(label.detail, kDetailSize, width), label.emphasised});
      most_ = std::max(most_, columns_.back().name.size() + columns_.back().detail.size());
    }
  }

  double height() const { return columns_.empty() ? 0 : kLine * double(most_) + 4; }

  void draw(Svg& svg, double left, double bottom, double step) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Column& column = columns_[i];
      const double x = left + step * double(i) + width_ / 2;
      double y = bottom - kLine * (double(column.name.size() + column.detail.size()) - 0.5) - 4;
      const auto write = [&](const std::vector<std::string>& lines, const TextStyle& style) {
        for (const auto& line : lines) {
          svg.text(x, y, line, style);
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

  static constexpr double kLine = 14;
  std::vector<Column> columns_;
  size_t most_ = 0;
  double width_;
};

}  // namespace

std::string comparison_grid_svg(const ComparisonGrid& grid) {
  check_grid(grid);
  const torch::Tensor& first = grid.rows.front().images;
  const int64_t side = std::max<int64_t>(first.size(3), 1), count = first.size(0);
  const int64_t zoom = std::max<int64_t>(1, (kLeastSide + side - 1) / side);
  const double left = kGridMargin + label_width(grid) + 20;
  const double column = double(zoom * side);
  const double across = double(count) * (column + double(kSpace)) - double(kSpace);
  const double width = left + across + kGridMargin;
  const double step = double(zoom * first.size(2)) + kGap;
  const Heading heading(grid.title, grid.caption, width - 2 * kGridMargin);
  const ColumnLabels labels(grid.columns, column);
  const double begin = heading.height() + labels.height();
  const double height = begin + step * double(grid.rows.size()) + kGridMargin - kGap;
  Svg svg(width, height, Medium::file, grid.title);
  heading.draw(svg, kGridMargin);
  labels.draw(svg, left, begin, column + double(kSpace));
  for (size_t i = 0; i < grid.rows.size(); ++i) {
    const double top = begin + step * double(i);
    draw_row_label(svg, top + (step - kGap) / 2, grid.rows[i].label);
    draw_strip(svg, left, top, grid.rows[i].images, zoom);
  }
  return svg.str();
}

}  // namespace bespoke
