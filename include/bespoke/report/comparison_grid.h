#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace bespoke {

// What one solver made, in a row of its own.
struct ComparisonGridRow {
  std::string label;     // the solver
  std::string detail;    // in smaller letters under it
  torch::Tensor images;  // uint8 [count, 1 or 3, height, width], the same shape in every row
  bool emphasised = false;
};

struct ComparisonGrid {
  std::string title;
  std::string caption;  // what the samples are of
  std::vector<ComparisonGridRow> rows;
};

// Labelled rows of images, a column for each noise, as the bytes of a PNG. Every pixel becomes a
// square of whole pixels. In a build without cairo this throws an error that names the package.
std::string comparison_grid_png(const ComparisonGrid& grid);

}  // namespace bespoke
