#include "bespoke/solver/ns_solver.h"

#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

void check_finite(double value, const char* what, size_t row, size_t column) {
  if (std::isfinite(value)) return;
  throw bad_input("{}[{}][{}] is {}, every coefficient must be finite", what, row, column, value);
}

void check_times(const std::vector<double>& times) {
  for (size_t i = 0; i < times.size(); ++i) {
    if (!(times[i] >= 0 && times[i] <= 1)) {
      throw bad_input("times[{}] is {}, times run from 0 (noise) to 1 (data)", i, times[i]);
    }
    if (i > 0 && times[i] < times[i - 1]) {
      throw bad_input("times fall from {} to {} at index {}, they must not decrease", times[i - 1],
                      times[i], i);
    }
  }
}

void check_guided(const NsSolver& solver) {
  const SolverShape shape = solver.shape();
  const auto& guided = solver.guided;
  for (size_t i = 0; i < guided.size(); ++i) {
    if (guided[i] < 0 || guided[i] >= shape.nfe) {
      throw bad_input("guided[{}] is {}, steps are 0 to {}", i, guided[i], shape.nfe - 1);
    }
    if (i > 0 && guided[i] <= guided[i - 1]) {
      throw bad_input("guided[{}] is {} after {}, steps must rise", i, guided[i], guided[i - 1]);
    }
  }
  const size_t rows = guided.empty() ? 0 : solver.a.size();
  if (solver.c.size() != rows) {
    throw bad_input("c has {} rows, {} steps of which {} are guided need {}", solver.c.size(),
                    shape.nfe, guided.size(), rows);
  }
  for (size_t i = 0; i < rows; ++i) {
    if (solver.c[i].size() != shape.differences(i)) {
      throw bad_input("c[{}] has {} entries, {} steps up to {} are guided", i, solver.c[i].size(),
                      shape.differences(i), i);
    }
    for (size_t j = 0; j < solver.c[i].size(); ++j) check_finite(solver.c[i][j], "c", i, j);
  }
}

void check_lengths(const UpdateRule& rule, size_t k, const SolverShape& shape) {
  if (rule.c.size() != k + 1 || rule.d.size() != k + 1) {
    throw bad_input("update rule {} has {} and {} coefficients, it needs {} of each", k,
                    rule.c.size(), rule.d.size(), k + 1);
  }
  if (rule.e.size() != shape.differences(k)) {
    throw bad_input("update rule {} has {} coefficients of differences, it needs {}", k,
                    rule.e.size(), shape.differences(k));
  }
}

}  // namespace

int NsSolver::parameter_count() const {
  const SolverShape of = shape();
  size_t count = a.size() + 1;
  for (size_t i = 0; i < a.size(); ++i) count += of.columns(i);
  return static_cast<int>(count);
}

void NsSolver::validate() const {
  const size_t n = a.size();
  if (n == 0) throw bad_input("the solver has no steps, a needs at least one entry");
  if (times.size() != n + 1) {
    throw bad_input("times has {} entries, {} steps need {}", times.size(), n, n + 1);
  }
  if (b.size() != n) throw bad_input("b has {} rows, {} steps need {}", b.size(), n, n);
  for (size_t i = 0; i < n; ++i) {
    check_finite(a[i], "a", i, 0);
    if (b[i].size() != i + 1) {
      throw bad_input("b[{}] has {} entries, row {} needs {}", i, b[i].size(), i, i + 1);
    }
    for (size_t j = 0; j <= i; ++j) check_finite(b[i][j], "b", i, j);
  }
  check_guided(*this);
  check_times(times);
  if (!std::isfinite(start_scale) || start_scale == 0) {
    throw bad_input("start_scale is {}, it must be finite and not 0", start_scale);
  }
}

bool operator==(const NsSolver& left, const NsSolver& right) {
  return left.times == right.times && left.a == right.a && left.b == right.b &&
         left.start_scale == right.start_scale && left.guided == right.guided && left.c == right.c;
}

std::vector<double> step_coefficients(const NsSolver& solver, size_t step) {
  std::vector<double> coefficients = {solver.a[step]};
  const auto append = [&](const std::vector<double>& row) {
    coefficients.insert(coefficients.end(), row.begin(), row.end());
  };
  append(solver.b[step]);
  if (solver.guides_itself()) append(solver.c[step]);
  return coefficients;
}

void require_one_velocity(const NsSolver& solver, const std::string& what) {
  if (!solver.guides_itself()) return;
  throw bad_input(
      "{} cannot take a solver with built-in guidance (\"guided\" and \"c\"); run it with 'bespoke "
      "sample', or distil one without --network-calls",
      what);
}

bool same_evaluations(const NsSolver& left, const NsSolver& right) {
  if (left.nfe() != right.nfe() || left.nfe() == 0) return false;
  NsSolver other = right;
  other.a.back() = left.a.back();
  other.b.back() = left.b.back();
  other.times.back() = left.times.back();
  if (!left.c.empty() && !other.c.empty()) other.c.back() = left.c.back();
  return left == other;
}

NsSolver from_update_rules(const std::vector<double>& times, const std::vector<UpdateRule>& rules,
                           const std::vector<int>& guided) {
  NsSolver solver;
  solver.times = times;
  solver.guided = guided;
  const SolverShape shape = {static_cast<int>(rules.size()), guided};
  for (size_t k = 0; k < rules.size(); ++k) {
    const UpdateRule& rule = rules[k];
    check_lengths(rule, k, shape);
    double a = rule.c[0];
    std::vector<double> b = rule.d, c = rule.e;
    for (size_t j = 1; j <= k; ++j) {
      a += rule.c[j] * solver.a[j - 1];
      for (size_t m = 0; m < j; ++m) b[m] += rule.c[j] * solver.b[j - 1][m];
      for (size_t m = 0; m < shape.differences(j - 1); ++m) c[m] += rule.c[j] * solver.c[j - 1][m];
    }
    solver.a.push_back(a);
    solver.b.push_back(b);
    if (shape.guides_itself()) solver.c.push_back(c);
  }
  solver.validate();
  return solver;
}

NsSolver fold(const NsSolver& solver, const ScaleTime& transform) {
  const size_t n = solver.a.size();
  std::vector<ScaleTimePoint> points;
  std::vector<double> times;
  for (const double r : solver.times) {
    points.push_back(transform.at(r));
    times.push_back(points.back().t);
  }
  // bar x_j = s_j x_j, bar u_j = s'_j x_j + t'_j s_j u_j and bar d_j = t'_j s_j d_j, put into the
  // update rule.
  std::vector<UpdateRule> rules(n);
  for (size_t i = 0; i < n; ++i) {
    const double next_scale = points[i + 1].s;
    const auto speed = [&](size_t j) { return points[j].t_dot * points[j].s / next_scale; };
    rules[i].c.assign(i + 1, 0);
    rules[i].d.assign(i + 1, 0);
    rules[i].c[0] = solver.a[i] * points[0].s / next_scale;
    for (size_t j = 0; j <= i; ++j) {
      rules[i].c[j] += solver.b[i][j] * points[j].s_dot / next_scale;
      rules[i].d[j] = solver.b[i][j] * speed(j);
    }
    if (!solver.guides_itself()) continue;
    for (size_t m = 0; m < solver.c[i].size(); ++m) {
      rules[i].e.push_back(solver.c[i][m] * speed(static_cast<size_t>(solver.guided[m])));
    }
  }
  NsSolver folded = from_update_rules(times, rules, solver.guided);
  // The noise is x(0) there and here, up to the transformation's own scale.
  folded.start_scale = solver.start_scale * transform.at(0).s / points.front().s;
  return folded;
}

namespace {

// One evaluation more, halfway into step `step`, at the mean of the states around it.
NsSolver padded_once(const NsSolver& solver, size_t step) {
  NsSolver padded = solver;
  const auto at = static_cast<std::ptrdiff_t>(step);
  padded.times.insert(padded.times.begin() + at + 1,
                      (solver.times[step] + solver.times[step + 1]) / 2);
  // Row `step` leads to x_{step+1}; the row before it, to x_step.
  std::vector<double> row = solver.b[step];
  const bool first = step == 0;
  for (size_t j = 0; j < row.size(); ++j) {
    const double before = first || j >= solver.b[step - 1].size() ? 0 : solver.b[step - 1][j];
    row[j] = (row[j] + before) / 2;
  }
  padded.a.insert(padded.a.begin() + at, (solver.a[step] + (first ? 1 : solver.a[step - 1])) / 2);
  padded.b.insert(padded.b.begin() + at, row);
  for (size_t i = step + 1; i < padded.b.size(); ++i) {
    padded.b[i].insert(padded.b[i].begin() + at + 1, 0);
  }
  return padded;
}

}  // namespace

NsSolver pad(const NsSolver& solver, int nfe) {
  if (nfe > solver.nfe()) require_one_velocity(solver, "a start of more evaluations");
  NsSolver padded = solver;
  while (padded.nfe() < nfe) {
    size_t longest = 0;
    for (size_t i = 1; i < padded.a.size(); ++i) {
      const auto length = [&](size_t k) { return padded.times[k + 1] - padded.times[k]; };
      if (length(i) > length(longest)) longest = i;
    }
    padded = padded_once(padded, longest);
  }
  return padded;
}

}  // namespace bespoke
