#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// Charts for a README or a paper, drawn without a browser: the bytes of a PNG at twice the usual
// resolution, on white. In a build without cairo they throw an error that names the package.

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y); y that is not finite is left out
  bool emphasised = false;                        // in the accent colour, over the others
};

struct LineChart {
  std::string title;
  std::string caption;  // what the figures are of
  std::string x_label, y_label;
  std::vector<ChartSeries> series;  // named at the right, beside where each ends
  bool logarithmic = false;         // in x, which is above 0 then
};

// Whether this build can draw: without cairo the functions below throw.
bool charts_are_built();

std::string line_chart_png(const LineChart& chart);

// Where the solver evaluates, against a uniform grid.
std::string time_grid_png(const NsSolver& solver, const std::string& title,
                          const std::string& caption);

// Times, a and b with their values, coloured by sign and size; a row for each step.
std::string heat_map_png(const NsSolver& solver, const std::string& title,
                         const std::string& caption);

}  // namespace bespoke
