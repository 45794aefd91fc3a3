#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/report/chart.h"
#include "svg.h"
#include "ticks.h"

namespace bespoke {

namespace {

constexpr double kNameSize = 12;
constexpr double kNameLine = 15;
constexpr double kRowGap = 14;

std::vector<std::string> lines_of(const ChartBar& bar) {
  constexpr double kWidest = 140;  // points; a grid's options alone take more
  return name_lines(bar.name, kNameSize, kWidest);
}

double widest(const std::vector<ChartBar>& bars) {
  double width = 0;
  for (const auto& bar : bars) {
    for (const auto& line : lines_of(bar)) {
      width = std::max(width, text_width(line, kNameSize));
    }
  }
  return width;
}

double height_of(const ChartBar& bar) { return kNameLine * double(lines_of(bar).size()) + kRowGap; }

// The columns of a chart: names to the left, bars to the right.
struct Columns {
  double left, right, most;

  double x(double value) const { return left + value / most * (right - left); }
};

void draw_bar(Svg& svg, const ChartBar& bar, const Columns& columns, double top) {
  constexpr double kPale = 0.25;
  const auto lines = lines_of(bar);
  const double height = height_of(bar), middle = top + height / 2;
  double y = middle - kNameLine * (double(lines.size()) - 1) / 2;
  for (const auto& line : lines) {
    svg.text(columns.left - 10, y, line, {kNameSize, kInk, Anchor::end});
    y += kNameLine;
  }
  const Colour colour = bar.colour ? series_colour(*bar.colour) : kAccent;
  const double thick = std::min(height - 8, 26.0), end = columns.x(bar.value);
  svg.rectangle(columns.left, middle - thick / 2, end - columns.left, thick, colour,
                bar.goes_on ? kPale : 1, bar.name + ": " + bar.text);
  svg.text(end + 6, middle, bar.text, {kNameSize, kInk, Anchor::start, true});
}

}  // namespace

std::string bar_chart_svg(const BarChart& chart, const ChartFrame& frame) {
  if (chart.bars.empty()) throw bad_input("a bar chart of '{}' has no bars", chart.x_label);
  constexpr double kMostOfWidth = 0.45, kValue = 52, kBelow = 44;
  const double left = std::min(widest(chart.bars), kMostOfWidth * frame.width) + 14;
  double bottom = 6;
  for (const auto& bar : chart.bars) bottom += height_of(bar);
  Svg svg(frame.width, bottom + kBelow, frame.is_of_page ? Medium::page : Medium::file,
          frame.label);
  const auto ticks = axis_ticks(0, chart.most, 5);
  const Columns columns = {left, frame.width - kValue, std::max(ticks.back(), 1e-9)};
  for (const double tick : ticks) {
    svg.line({{columns.x(tick), 0}, {columns.x(tick), bottom}}, {kLine, 1});
    svg.text(columns.x(tick), bottom + 14, tick_text(tick), {11, kSoft, Anchor::middle});
  }
  double top = 6;
  for (const auto& bar : chart.bars) {
    draw_bar(svg, bar, columns, top);
    top += height_of(bar);
  }
  svg.text((columns.left + columns.right) / 2, bottom + 34, chart.x_label,
           {11.5, kSoft, Anchor::middle});
  return svg.str();
}

}  // namespace bespoke
