#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace bespoke {

// What stands beside a row, or over a column.
struct ComparisonGridLabel {
  std::string name;
  std::string detail = {};  // in smaller letters under it
  bool emphasised = false;
};

struct ComparisonGridRow {
  ComparisonGridLabel label;
  torch::Tensor images;  // uint8 [count, 1 or 3, height, width], the same shape in every row
};

struct ComparisonGrid {
  std::string title;
  std::string caption;  // what the samples are of
  std::vector<ComparisonGridRow> rows;
  std::vector<ComparisonGridLabel> columns;  // one over each image, or none
};

// Labelled rows of images as SVG, which holds them; every pixel is a square. Needs libpng.
std::string comparison_grid_svg(const ComparisonGrid& grid);

}  // namespace bespoke
