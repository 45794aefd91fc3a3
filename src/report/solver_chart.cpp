// The charts of a solver's own numbers.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bespoke/report/chart.h"
#include "heading.h"
#include "largest.h"
#include "svg.h"

namespace bespoke {

namespace {

constexpr double kSheetWidth = 800;
constexpr double kSheetMargin = 28;
constexpr double kCellHeight = 28;
constexpr double kWidestCell = 64;

// How strong the colour of a coefficient is: by the root of its share of the largest.
double heat(double value, double largest) {
  return largest == 0 ? 0 : 0.06 + 0.56 * std::sqrt(std::abs(value) / largest);
}

// A table of coloured cells: i and t, then a, then a column for each b, and for each c of a solver
// with built-in guidance.
class HeatMap {
 public:
  HeatMap(const NsSolver& solver, double top)
      : solver_(solver),
        top_(top),
        cell_(std::min(kWidestCell, (kSheetWidth - 2 * kSheetMargin - 110) /
                                        double(solver.nfe() + 1 + solver.guided.size()))) {}

  double height() const { return kCellHeight * (solver_.nfe() + 1); }

  void draw(Svg& svg) const {
    svg.text(kSheetMargin + 14, y(-1), "i", head());
    svg.text(kSheetMargin + 62, y(-1), "t", head());
    svg.text(x(0), y(-1), "a", head());
    const int first_c = solver_.nfe() + 1;
    double largest_b = 0, largest_c = 0;
    for (int i = 0; i < solver_.nfe(); ++i) {
      svg.text(x(i + 1), y(-1), fmt::format("b{}", i), head());
    }
    for (size_t k = 0; k < solver_.guided.size(); ++k) {
      svg.text(x(first_c + int(k)), y(-1), fmt::format("c{}", solver_.guided[k]), head());
    }
    for (const auto& row : solver_.b) largest_b = std::max(largest_b, largest_size(row));
    for (const auto& row : solver_.c) largest_c = std::max(largest_c, largest_size(row));
    const double largest_a = largest_size(solver_.a);
    for (size_t i = 0; i < solver_.a.size(); ++i) {
      const int row = int(i);
      svg.text(kSheetMargin + 14, y(row), std::to_string(i), head());
      svg.text(kSheetMargin + 62, y(row), fmt::format("{:.3f}", solver_.times[i]), head());
      draw_cell(svg, row, 0, solver_.a[i], largest_a);
      for (size_t j = 0; j <= i; ++j) {
        draw_cell(svg, row, int(j) + 1, solver_.b[i][j], largest_b);
      }
      if (!solver_.guides_itself()) continue;
      for (size_t k = 0; k < solver_.c[i].size(); ++k) {
        draw_cell(svg, row, first_c + int(k), solver_.c[i][k], largest_c);
      }
    }
  }

 private:
  const NsSolver& solver_;
  double top_, cell_;

  static TextStyle head() { return {10.5, kSoft, Anchor::middle}; }

  // The middle of a cell; b stands a little apart from a, and c from b.
  double x(int column) const {
    const int gaps = (column > 0) + (column > solver_.nfe());
    return kSheetMargin + 94 + (column + 0.5) * cell_ + 8 * gaps;
  }
  double y(int row) const { return top_ + (row + 1.5) * kCellHeight; }

  void draw_cell(Svg& svg, int row, int column, double value, double largest) const {
    svg.rectangle(x(column) - cell_ / 2 + 1, y(row) - kCellHeight / 2 + 1, cell_ - 2,
                  kCellHeight - 2, value < 0 ? kNegative : kAccent, heat(value, largest));
    if (cell_ >= 32) {
      svg.text(x(column), y(row), fmt::format("{:.2f}", value), {10, kInk, Anchor::middle});
    }
  }
};

}  // namespace

std::string time_grid_svg(const NsSolver& solver, const std::string& title,
                          const std::string& caption) {
  const Heading heading(title, caption, kSheetWidth - 2 * kSheetMargin);
  const double upper = heading.height() + 32, lower = upper + 74;
  const double left = kSheetMargin + 80, right = kSheetWidth - kSheetMargin - 10;
  const auto x = [&](double time) { return left + time * (right - left); };
  Svg svg(kSheetWidth, lower + 66, Medium::file, title);
  heading.draw(svg, kSheetMargin);
  svg.text(kSheetMargin, upper, "uniform", {11.5, kSoft});
  svg.text(kSheetMargin, lower, "distilled", {11.5, kAccent, Anchor::start, true});
  svg.line({{left, upper}, {right, upper}}, {kLine, 1.5});
  svg.line({{left, lower}, {right, lower}}, {kLine, 1.5});
  for (int i = 0; i < solver.nfe(); ++i) {
    const double even = x(double(i) / solver.nfe()), own = x(solver.times[size_t(i)]);
    svg.line({{even, upper}, {own, lower}}, {kLine, 1.5});
    svg.disc(even, upper, 4, kSoft);
    svg.disc(own, lower, 6.5, kPaper);
    svg.disc(own, lower, 5.2, kAccent);
  }
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const char* end = tick == 0 ? " noise" : tick == 1 ? " data" : "";
    svg.line({{x(tick), lower + 16}, {x(tick), lower + 20}}, {kSoft, 1});
    svg.text(tick == 1 ? right + 10 : x(tick), lower + 32, fmt::format("{:g}{}", tick, end),
             {11.5, kSoft, tick == 1 ? Anchor::end : Anchor::middle});
  }
  return svg.str();
}

std::string heat_map_svg(const NsSolver& solver, const std::string& title,
                         const std::string& caption) {
  const Heading heading(title, caption, kSheetWidth - 2 * kSheetMargin);
  const HeatMap map(solver, heading.height());
  Svg svg(kSheetWidth, heading.height() + map.height() + 24, Medium::file, title);
  heading.draw(svg, kSheetMargin);
  map.draw(svg);
  return svg.str();
}

}  // namespace bespoke
