#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// Charts as SVG: text that every browser draws, sharp at any size.

struct ChartPoint {
  double x = 0;
  double y = 0;         // a point whose y is not finite is left out
  double error = 0;     // the standard error of y, drawn as a bar; 0 or NaN where it is not known
  bool ringed = false;  // a ring stands around it
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  bool emphasised = false;  // in the accent colour, over the others
  bool marked = true;       // with a mark at each point, if there are not too many
};

struct LineChart {
  std::string title;
  std::string caption;  // what the figures are of
  std::string x_label, y_label;
  std::vector<ChartSeries> series;
  bool logarithmic_x = false, logarithmic_y = false;  // figures are above 0 then
};

struct ChartBar {
  std::string name;
  double value = 0;
  std::string text;                   // the value in words
  std::optional<size_t> colour = {};  // a place among the cool colours; none: the accent
  bool goes_on = false;               // pale, since the value is a bound
};

struct BarChart {
  std::string x_label;
  std::vector<ChartBar> bars;
  double most = 0;  // that has room
};

// What a chart is drawn for. In a file it has its title, its caption and the names of lines beside
// where they end; a page has these around it, and its own colours.
struct ChartFrame {
  double width = 800;
  double plot_height = 340;
  bool is_of_page = false;
  std::string label = {};  // for those who cannot see it
};

std::string line_chart_svg(const LineChart& chart, const ChartFrame& frame = {});
std::string bar_chart_svg(const BarChart& chart, const ChartFrame& frame);

// The place of a series among the cool colours: of those not emphasised before it.
size_t colour_place(const std::vector<ChartSeries>& series, size_t index);

// Where the solver evaluates, against a uniform grid.
std::string time_grid_svg(const NsSolver& solver, const std::string& title,
                          const std::string& caption);

// Times, a and b with their values, coloured by sign and size; a row for each step.
std::string heat_map_svg(const NsSolver& solver, const std::string& title,
                         const std::string& caption);

}  // namespace bespoke
