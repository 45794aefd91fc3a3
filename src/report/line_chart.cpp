#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/report/chart.h"
#include "heading.h"
#include "svg.h"
#include "ticks.h"

namespace bespoke {

namespace {

constexpr double kMargin = 28;     // around a file's chart
constexpr double kPageMargin = 2;  // around a page's
constexpr double kLabelSize = 11.5;
constexpr double kLabelLine = 16;

struct Box {
  double left, top, right, bottom;
};

// From figures to points on the sheet.
struct Axes {
  Box box;
  std::vector<double> x_ticks, y_ticks;
  bool logarithmic_x, logarithmic_y;

  double x(double value) const {
    constexpr double kInset = 14;  // so that the first points do not sit on the axis
    return box.left + kInset +
           share(value, x_ticks, logarithmic_x) * (box.right - box.left - 2 * kInset);
  }
  double y(double value) const {
    return box.bottom - share(value, y_ticks, logarithmic_y) * (box.bottom - box.top);
  }

 private:
  static double share(double value, const std::vector<double>& ticks, bool logarithmic) {
    const auto scaled = [&](double number) { return logarithmic ? std::log10(number) : number; };
    const double first = scaled(ticks.front());
    return (scaled(value) - first) / std::max(scaled(ticks.back()) - first, 1e-9);
  }
};

// A line as it is drawn: its finite points in their order.
struct Drawn {
  ChartSeries series;
  Colour colour;
  size_t place;  // among its kind
};

std::vector<Drawn> drawn_series(const LineChart& chart) {
  std::vector<Drawn> drawn;
  size_t emphasised = 0;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    ChartSeries one = chart.series[i];
    const size_t place = one.emphasised ? emphasised++ : colour_place(chart.series, i);
    const auto is_drawn = [&](const ChartPoint& point) {
      return std::isfinite(point.y) && (!chart.logarithmic_y || point.y > 0);
    };
    auto& points = one.points;
    points.erase(std::remove_if(points.begin(), points.end(),
                                [&](const auto& point) { return !is_drawn(point); }),
                 points.end());
    std::sort(points.begin(), points.end(),
              [](const auto& left, const auto& right) { return left.x < right.x; });
    if (points.empty()) continue;
    const Colour colour = one.emphasised ? kAccent : series_colour(place);
    drawn.push_back({std::move(one), colour, place});
  }
  if (drawn.empty()) throw bad_input("the chart '{}' has no figures to draw", chart.title);
  return drawn;
}

double widest_name(const std::vector<Drawn>& drawn) {
  double widest = 0;
  for (const auto& [series, colour, place] : drawn) {
    widest = std::max(widest, text_width(series.name, kLabelSize, series.emphasised));
  }
  return widest;
}

// Powers of ten that hold them all between them.
std::vector<double> powers_of_ten(double least, double most) {
  std::vector<double> powers = {std::pow(10, std::floor(std::log10(least)))};
  while (powers.back() < most || powers.size() < 2) powers.push_back(10 * powers.back());
  return powers;
}

// Where there are few, the very numbers that were measured at; otherwise round ones.
std::vector<double> x_ticks_of(const std::set<double>& measured, bool logarithmic) {
  constexpr size_t kMostMeasured = 14;
  if (logarithmic) return powers_of_ten(*measured.begin(), *measured.rbegin());
  if (measured.size() <= kMostMeasured) return {measured.begin(), measured.end()};
  return axis_ticks(*measured.begin(), *measured.rbegin(), 9);
}

Axes axes_of(const std::vector<Drawn>& drawn, const Box& box, const LineChart& chart) {
  std::set<double> measured;
  double least = drawn[0].series.points[0].y, most = least;
  for (const auto& one : drawn) {
    for (const auto& point : one.series.points) {
      const double error = point.error > 0 && !chart.logarithmic_y ? point.error : 0;
      measured.insert(point.x);
      least = std::min(least, point.y - error), most = std::max(most, point.y + error);
    }
  }
  return {box, x_ticks_of(measured, chart.logarithmic_x),
          chart.logarithmic_y ? powers_of_ten(least, most) : axis_ticks(least, most, 6),
          chart.logarithmic_x, chart.logarithmic_y};
}

std::string tick_name(double value, bool logarithmic) {
  return logarithmic && value >= 1 ? count_text(value) : tick_text(value);
}

void draw_axes(Svg& svg, const Axes& axes, const LineChart& chart, double left) {
  const Box& box = axes.box;
  for (const double tick : axes.y_ticks) {
    svg.line({{box.left, axes.y(tick)}, {box.right, axes.y(tick)}}, {kLine, 1});
    svg.text(box.left - 8, axes.y(tick), tick_name(tick, axes.logarithmic_y),
             {kLabelSize, kSoft, Anchor::end});
  }
  for (const double tick : axes.x_ticks) {
    svg.line({{axes.x(tick), box.bottom}, {axes.x(tick), box.bottom + 4}}, {kSoft, 1});
    svg.text(axes.x(tick), box.bottom + 15, tick_name(tick, axes.logarithmic_x),
             {kLabelSize, kSoft, Anchor::middle});
  }
  svg.line({{box.left, box.bottom}, {box.right, box.bottom}}, {kSoft, 1});
  svg.text((box.left + box.right) / 2, box.bottom + 36, chart.x_label,
           {kLabelSize, kSoft, Anchor::middle});
  svg.text(left, box.top - 18, chart.y_label, {kLabelSize, kSoft});
}

// Lines are told apart without their colours, too.
void draw_mark(Svg& svg, double x, double y, double r, const Drawn& drawn,
               const std::string& says) {
  const Colour colour = drawn.colour;
  switch (drawn.series.emphasised ? 0 : drawn.place % 4) {
    case 1:
      return svg.polygon({{x - r, y - r}, {x + r, y - r}, {x + r, y + r}, {x - r, y + r}}, colour,
                         says);
    case 2:
      return svg.polygon({{x, y - 1.3 * r}, {x + 1.2 * r, y + r}, {x - 1.2 * r, y + r}}, colour,
                         says);
    case 3:
      return svg.polygon({{x, y - 1.4 * r}, {x + 1.4 * r, y}, {x, y + 1.4 * r}, {x - 1.4 * r, y}},
                         colour, says);
    default:
      return svg.disc(x, y, r, colour, says);
  }
}

std::string said_of(const ChartPoint& point, const Drawn& drawn, const LineChart& chart) {
  const std::string error = point.error > 0 ? fmt::format(" ± {:.2g}", point.error) : "";
  return fmt::format("{}, {} {}: {:.4g}{}", drawn.series.name, tick_text(point.x), chart.x_label,
                     point.y, error);
}

void draw_error(Svg& svg, const Axes& axes, const ChartPoint& point, Colour colour) {
  if (!(point.error > 0) || axes.logarithmic_y) return;  // bars of distances would be lopsided
  constexpr double kHalf = 4;
  const double x = axes.x(point.x);
  const double low = axes.y(point.y - point.error), high = axes.y(point.y + point.error);
  svg.line({{x - kHalf, low}, {x + kHalf, low}}, {colour, 1.5});
  svg.line({{x - kHalf, high}, {x + kHalf, high}}, {colour, 1.5});
  svg.line({{x, low}, {x, high}}, {colour, 1.5});
}

void draw_points(Svg& svg, const Axes& axes, const Drawn& drawn, const LineChart& chart) {
  constexpr size_t kMostMarks = 40;  // more hide the line
  const auto& [series, colour, place] = drawn;
  for (const ChartPoint& point : series.points) {
    const double x = axes.x(point.x), y = axes.y(point.y);
    draw_error(svg, axes, point, colour);
    if (point.ringed) {
      svg.disc(x, y, 8, colour, said_of(point, drawn, chart));
      svg.disc(x, y, 5, kPaper, said_of(point, drawn, chart));
    } else if (series.marked && series.points.size() <= kMostMarks) {
      svg.disc(x, y, series.emphasised ? 5.5 : 4, kPaper);
      draw_mark(svg, x, y, series.emphasised ? 4.5 : 3, drawn, said_of(point, drawn, chart));
    }
  }
}

void draw_series(Svg& svg, const Axes& axes, const Drawn& drawn, const LineChart& chart) {
  std::vector<std::pair<double, double>> points;
  for (const auto& point : drawn.series.points) {
    points.emplace_back(axes.x(point.x), axes.y(point.y));
  }
  const bool emphasised = drawn.series.emphasised;
  svg.begin_group(drawn.series.name);
  svg.line(points, {drawn.colour, emphasised ? 3 : 1.6, 1, emphasised && drawn.place > 0});
  draw_points(svg, axes, drawn, chart);
  svg.end_group();
}

// Where the names go: beside the ends of their lines, moved apart where they would overlap.
std::vector<double> label_heights(const std::vector<Drawn>& drawn, const Axes& axes) {
  std::vector<size_t> order(drawn.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto end_of = [&](size_t i) { return axes.y(drawn[i].series.points.back().y); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return end_of(a) < end_of(b); });
  std::vector<double> heights(drawn.size());
  double below = axes.box.top - kLabelLine;
  for (const size_t i : order) below = heights[i] = std::max(end_of(i), below + kLabelLine);
  double above = axes.box.bottom + kLabelLine;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    above = heights[*i] = std::min(heights[*i], above - kLabelLine);
  }
  return heights;
}

void draw_labels(Svg& svg, const Axes& axes, const std::vector<Drawn>& drawn) {
  const auto heights = label_heights(drawn, axes);
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto& [series, colour, place] = drawn[i];
    const double x = axes.x(series.points.back().x), y = axes.y(series.points.back().y);
    svg.line(
        {{x + 6, y}, {std::max(x + 6, axes.box.right + 6), y}, {axes.box.right + 18, heights[i]}},
        {colour, 1, 0.35});
    svg.text(axes.box.right + 22, heights[i], series.name,
             {kLabelSize, colour, Anchor::start, series.emphasised});
  }
}

void draw_chart(Svg& svg, const Axes& axes, const std::vector<Drawn>& drawn, const LineChart& chart,
                double left) {
  draw_axes(svg, axes, chart, left);
  for (const bool emphasised : {false, true}) {
    for (const auto& one : drawn) {
      if (one.series.emphasised == emphasised) draw_series(svg, axes, one, chart);
    }
  }
}

}  // namespace

size_t colour_place(const std::vector<ChartSeries>& series, size_t index) {
  const auto end = series.begin() + static_cast<std::ptrdiff_t>(index);
  return static_cast<size_t>(
      std::count_if(series.begin(), end, [](const auto& one) { return !one.emphasised; }));
}

std::string line_chart_svg(const LineChart& chart, const ChartFrame& frame) {
  const auto drawn = drawn_series(chart);
  const double below = 58;  // the plot: ticks and the axis' name
  if (frame.is_of_page) {
    const Box box = {kPageMargin + 40, 32, frame.width - kPageMargin, 32 + frame.plot_height};
    Svg svg(frame.width, box.bottom + below - 10, Medium::page, frame.label);
    draw_chart(svg, axes_of(drawn, box, chart), drawn, chart, kPageMargin);
    return svg.str();
  }
  const Heading heading(chart.title, chart.caption, frame.width - 2 * kMargin);
  const double top = heading.height() + 34;
  const Box box = {kMargin + 34, top, frame.width - kMargin - 22 - widest_name(drawn),
                   top + frame.plot_height};
  const Axes axes = axes_of(drawn, box, chart);
  Svg svg(frame.width, box.bottom + below, Medium::file, chart.title);
  heading.draw(svg, kMargin);
  draw_chart(svg, axes, drawn, chart, kMargin);
  draw_labels(svg, axes, drawn);
  return svg.str();
}

}  // namespace bespoke
