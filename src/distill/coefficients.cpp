#include "bespoke/distill/coefficients.h"

namespace bespoke {

namespace {

size_t steps_of(const SolverShape& shape) { return static_cast<size_t>(shape.nfe); }

// Entries of c in the rows before a step.
size_t differences_before(const SolverShape& shape, size_t step) {
  size_t count = 0;
  for (size_t i = 0; i < step; ++i) count += shape.differences(i);
  return count;
}

}  // namespace

size_t coefficient_count(const SolverShape& shape) {
  return start_scale_index(shape) + 1 + differences_before(shape, steps_of(shape));
}

size_t start_scale_index(const SolverShape& shape) {
  const size_t n = steps_of(shape);
  return 2 * n + 1 + n * (n + 1) / 2;
}

size_t step_coefficient_index(const SolverShape& shape, size_t step, size_t column) {
  const size_t n = steps_of(shape);
  if (column == 0) return n + 1 + step;
  if (column <= step + 1) return 2 * n + 1 + step * (step + 1) / 2 + column - 1;
  return start_scale_index(shape) + 1 + differences_before(shape, step) + column - (step + 2);
}

std::vector<double> coefficients_of(const NsSolver& solver) {
  std::vector<double> values = solver.times;
  values.insert(values.end(), solver.a.begin(), solver.a.end());
  for (const auto& row : solver.b) values.insert(values.end(), row.begin(), row.end());
  values.push_back(solver.start_scale);
  for (const auto& row : solver.c) values.insert(values.end(), row.begin(), row.end());
  return values;
}

NsSolver solver_of(const SolverShape& shape, const std::vector<double>& coefficients) {
  NsSolver solver;
  auto next = coefficients.begin();
  const auto take = [&](size_t count) {
    const auto begin = next;
    next += static_cast<std::ptrdiff_t>(count);
    return std::vector<double>(begin, next);
  };
  const size_t n = steps_of(shape);
  solver.times = take(n + 1);
  solver.a = take(n);
  for (size_t i = 0; i < n; ++i) solver.b.push_back(take(i + 1));
  solver.start_scale = *next++;
  solver.guided = shape.guided;
  for (size_t i = 0; shape.guides_itself() && i < n; ++i) {
    solver.c.push_back(take(shape.differences(i)));
  }
  return solver;
}

}  // namespace bespoke
