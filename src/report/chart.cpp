#include "bespoke/report/chart.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "bespoke/base/error.h"
#include "canvas.h"
#include "heading.h"
#include "ticks.h"

namespace bespoke {

namespace {

constexpr double kWidth = 800;
constexpr double kPlotHeight = 340;
constexpr double kMargin = 28;
constexpr double kLabelSize = 11.5;
constexpr double kLabelLine = 16;

// Cool colours for all but the emphasised, as on the page.
constexpr Colour kSeriesColours[] = {{0.18, 0.44, 0.70}, {0.12, 0.54, 0.49}, {0.48, 0.38, 0.71},
                                     {0.49, 0.52, 0.56}, {0.29, 0.61, 0.77}, {0.36, 0.52, 0.25},
                                     {0.65, 0.38, 0.55}, {0.27, 0.34, 0.44}, {0.58, 0.47, 0.18}};

struct Box {
  double left, top, right, bottom;
};

// From figures to points on the sheet.
struct Axes {
  Box box;
  std::vector<double> x_ticks, y_ticks;
  bool logarithmic;  // in x

  double x(double value) const {
    constexpr double kInset = 14;  // so that the first points do not sit on the axis
    const double first = scaled(x_ticks.front());
    const double range = std::max(scaled(x_ticks.back()) - first, 1e-9);
    return box.left + kInset +
           (scaled(value) - first) / range * (box.right - box.left - 2 * kInset);
  }
  double scaled(double value) const { return logarithmic ? std::log10(value) : value; }
  double y(double value) const {
    const double share = (value - y_ticks.front()) / (y_ticks.back() - y_ticks.front());
    return box.bottom - share * (box.bottom - box.top);
  }
};

std::vector<ChartSeries> finite_series(const LineChart& chart) {
  std::vector<ChartSeries> series;
  for (ChartSeries one : chart.series) {
    auto& points = one.points;
    points.erase(std::remove_if(points.begin(), points.end(),
                                [](const auto& p) { return !std::isfinite(p.second); }),
                 points.end());
    std::sort(points.begin(), points.end());
    if (!points.empty()) series.push_back(std::move(one));
  }
  if (series.empty()) throw bad_input("the chart '{}' has no figures to draw", chart.title);
  return series;
}

std::vector<Colour> colours_of(const std::vector<ChartSeries>& series) {
  std::vector<Colour> colours;
  size_t next = 0;
  for (const auto& one : series) {
    const size_t place = next % std::size(kSeriesColours);
    colours.push_back(one.emphasised ? kAccent : kSeriesColours[place]);
    if (!one.emphasised) ++next;
  }
  return colours;
}

double widest_name(const std::vector<ChartSeries>& series) {
  double widest = 0;
  for (const auto& one : series) {
    widest = std::max(widest, text_width(one.name, kLabelSize, one.emphasised));
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

Axes axes_of(const std::vector<ChartSeries>& series, const Box& box, bool logarithmic) {
  std::set<double> measured;
  double least = series[0].points[0].second, most = least;
  for (const auto& one : series) {
    for (const auto& [x, y] : one.points) {
      measured.insert(x);
      least = std::min(least, y), most = std::max(most, y);
    }
  }
  return {box, x_ticks_of(measured, logarithmic), axis_ticks(least, most, 6), logarithmic};
}

void draw_axes(Canvas& canvas, const Axes& axes, const LineChart& chart) {
  const Box& box = axes.box;
  for (const double tick : axes.y_ticks) {
    canvas.line({{box.left, axes.y(tick)}, {box.right, axes.y(tick)}}, kLine, 1);
    canvas.text(box.left - 8, axes.y(tick), tick_text(tick), {kLabelSize, kSoft, Anchor::end});
  }
  for (const double tick : axes.x_ticks) {
    canvas.line({{axes.x(tick), box.bottom}, {axes.x(tick), box.bottom + 4}}, kSoft, 1);
    canvas.text(axes.x(tick), box.bottom + 15,
                axes.logarithmic ? count_text(tick) : tick_text(tick),
                {kLabelSize, kSoft, Anchor::middle});
  }
  canvas.line({{box.left, box.bottom}, {box.right, box.bottom}}, kSoft, 1);
  canvas.text((box.left + box.right) / 2, box.bottom + 36, chart.x_label,
              {kLabelSize, kSoft, Anchor::middle});
  canvas.text(kMargin, box.top - 18, chart.y_label, {kLabelSize, kSoft});
}

void draw_series(Canvas& canvas, const Axes& axes, const ChartSeries& series, Colour colour) {
  std::vector<std::pair<double, double>> points;
  for (const auto& [x, y] : series.points) points.emplace_back(axes.x(x), axes.y(y));
  canvas.line(points, colour, series.emphasised ? 3 : 1.6);
  constexpr size_t kMostDiscs = 40;  // more hide the line
  if (points.size() > kMostDiscs) return;
  for (const auto& [x, y] : points) {
    canvas.disc(x, y, series.emphasised ? 5.5 : 3.8, {1, 1, 1});
    canvas.disc(x, y, series.emphasised ? 4.5 : 2.9, colour);
  }
}

// Where the names go: beside the ends of their lines, moved apart where they would overlap.
std::vector<double> label_heights(const std::vector<ChartSeries>& series, const Axes& axes) {
  std::vector<size_t> order(series.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto end_of = [&](size_t i) { return axes.y(series[i].points.back().second); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return end_of(a) < end_of(b); });
  std::vector<double> heights(series.size());
  double below = axes.box.top - kLabelLine;
  for (const size_t i : order) below = heights[i] = std::max(end_of(i), below + kLabelLine);
  double above = axes.box.bottom + kLabelLine;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    above = heights[*i] = std::min(heights[*i], above - kLabelLine);
  }
  return heights;
}

void draw_labels(Canvas& canvas, const Axes& axes, const std::vector<ChartSeries>& series,
                 const std::vector<Colour>& colours) {
  const auto heights = label_heights(series, axes);
  for (size_t i = 0; i < series.size(); ++i) {
    const auto& [x, y] = series[i].points.back();
    Colour leader = colours[i];
    leader.alpha = 0.35;
    canvas.line({{axes.x(x) + 6, axes.y(y)},
                 {std::max(axes.x(x) + 6, axes.box.right + 6), axes.y(y)},
                 {axes.box.right + 18, heights[i]}},
                leader, 1);
    canvas.text(axes.box.right + 22, heights[i], series[i].name,
                {kLabelSize, colours[i], Anchor::start, series[i].emphasised});
  }
}

}  // namespace

std::string line_chart_png(const LineChart& chart) {
  const auto series = finite_series(chart);
  const auto colours = colours_of(series);
  const Heading heading(chart.title, chart.caption, kWidth - 2 * kMargin);
  const double top = heading.height() + 34;
  const Box box = {kMargin + 34, top, kWidth - kMargin - 22 - widest_name(series),
                   top + kPlotHeight};
  const Axes axes = axes_of(series, box, chart.logarithmic);
  Canvas canvas(kWidth, top + kPlotHeight + 58);
  heading.draw(canvas, kMargin);
  draw_axes(canvas, axes, chart);
  for (const bool emphasised : {false, true}) {
    for (size_t i = 0; i < series.size(); ++i) {
      if (series[i].emphasised == emphasised) draw_series(canvas, axes, series[i], colours[i]);
    }
  }
  draw_labels(canvas, axes, series, colours);
  return canvas.png();
}

}  // namespace bespoke
