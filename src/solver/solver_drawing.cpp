#include "bespoke/solver/solver_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bespoke {

namespace {

constexpr char kShades[] = " .,:=+*#%@";
constexpr int kDarkest = sizeof(kShades) - 2;

char shade(double value, double largest) {
  if (value == 0 || largest == 0) return kShades[0];
  // Square roots, or one large coefficient would bleach all others.
  const double level = std::sqrt(std::abs(value) / largest) * kDarkest;
  return kShades[std::clamp(static_cast<int>(std::lround(level)), 1, kDarkest)];
}

double largest_coefficient(const NsSolver& solver) {
  double largest = 0;
  for (const auto& row : solver.b) {
    for (const double value : row) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

}  // namespace

std::string draw_times(const NsSolver& solver, int width) {
  std::string axis(static_cast<size_t>(width) + 1, '-');
  std::vector<int> marks(axis.size(), 0);
  for (size_t i = 0; i < solver.a.size(); ++i) {
    ++marks[static_cast<size_t>(std::lround(solver.times[i] * width))];
  }
  for (size_t k = 0; k < axis.size(); ++k) {
    if (marks[k] == 1) axis[k] = 'o';
    if (marks[k] > 1) axis[k] = static_cast<char>('0' + std::min(marks[k], 9));
  }
  return fmt::format("noise {} data\n", axis);
}

std::string draw_coefficients(const NsSolver& solver) {
  const double largest = largest_coefficient(solver);
  std::string text;
  for (size_t i = 0; i < solver.b.size(); ++i) {
    text += fmt::format("x{:<4}|", i + 1);
    for (const double value : solver.b[i]) {
      text += shade(value, largest);
      text += value < 0 ? '-' : ' ';
    }
    text += "\n";
  }
  return text;
}

}  // namespace bespoke
