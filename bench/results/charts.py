"""Line charts as SVG, of nothing but text."""

import math
from html import escape

COLOURS = ("#1b6ca8", "#c8553d", "#4c8c4a", "#8a5aa8", "#b8860b", "#4a9c9c", "#a8577b", "#6b6b6b",
           "#2f4b7c")
LEFT, RIGHT, TOP, BOTTOM = 60, 520, 24, 340


class Axis:
    """Where figures are drawn, evenly or by their logarithm, and which of them are named."""

    def __init__(self, values, begin, end, logarithmic):
        self.logarithmic = logarithmic
        self.scale = math.log10 if logarithmic else float
        self.low, self.high = self.scale(min(values)), self.scale(max(values))
        if self.high == self.low:
            self.high = self.low + 1
        self.begin, self.end = begin, end

    def __call__(self, value):
        share = (self.scale(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        if self.logarithmic:
            powers = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
            return [10.0 ** power for power in powers]
        step = next(step for step in (1, 2, 5, 10, 20, 50, 100)
                    if (self.high - self.low) / step <= 9)
        first = math.ceil(self.low / step) * step
        return [first + i * step for i in range(int((self.high - first) / step + 1e-9) + 1)]


def number(value):
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"


def drawn_axes(chart, x, y):
    parts = []
    for value in y.ticks():
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">'
                     f'{number(value)}</text>')
    for value in x.ticks():
        parts.append(f'<text x="{x(value):.1f}" y="{BOTTOM + 18}" text-anchor="middle">'
                     f'{number(value)}</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 42}" text-anchor="middle">'
                 f'{escape(chart.across)}</text>'
                 f'<text x="{LEFT - 40}" y="14">{escape(chart.upwards)}</text>')
    return parts


def drawn_line(points, x, y, colour):
    line = " ".join(f"{x(across):.1f},{y(up):.1f}" for across, up in points)
    return ([f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'] +
            [f'<circle cx="{x(across):.1f}" cy="{y(up):.1f}" r="3" fill="{colour}"/>'
             for across, up in points])


def svg(chart):
    """The chart; points without a figure are left out, and so are lines without points."""
    upwards = "y" in chart.logarithmic
    series = {label: [(across, up) for across, up in points
                      if up is not None and (up > 0 or not upwards)]
              for label, points in chart.series.items()}
    series = {label: points for label, points in series.items() if points}
    every = [point for points in series.values() for point in points]
    if not every:
        return ""
    x = Axis([across for across, _ in every], LEFT, RIGHT, "x" in chart.logarithmic)
    y = Axis([up for _, up in every], BOTTOM, TOP, upwards)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 400" '
             'font-family="sans-serif" font-size="13" fill="#333">',
             '<rect width="700" height="400" fill="white"/>', *drawn_axes(chart, x, y)]
    for place, (label, points) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        parts += drawn_line(points, x, y, colour)
        parts.append(f'<text x="{RIGHT + 16}" y="{TOP + 12 + 20 * place}" fill="{colour}">'
                     f'{escape(label)}</text>')
    return "\n".join([*parts, "</svg>", ""])
