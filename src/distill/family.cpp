#include "bespoke/distill/family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/solver/imported_solver.h"
#include "bespoke/solver/named_solver.h"
#include "bespoke/solver/translation.h"
#include "dual.h"

namespace bespoke {

namespace {

// An increment of the times is at least this part of their mean when a solver becomes parameters:
// an increment of zero has a logit of minus infinity, which no optimiser can move.
constexpr double kLeastIncrement = 0.01;

// The first time of a free solver, of the mean increment: from nearer to 0 it would take its
// logarithm long to get anywhere.
constexpr double kLeastFirstTime = 0.1;

// The sums of the softmax of the logits, without the last, which is 1.
template <class T>
std::vector<T> times_from_logits(const T* logits, size_t count) {
  using std::exp;
  std::vector<T> weights;
  T total = 0.0;
  for (size_t i = 0; i < count; ++i) {
    weights.push_back(exp(logits[i]));
    total = total + weights.back();
  }
  std::vector<T> times;
  T sum = 0.0;
  for (size_t i = 0; i + 1 < count; ++i) {
    sum = sum + weights[i] / total;
    times.push_back(sum);
  }
  times.push_back(T(1.0));
  return times;
}

// Of what the noise is multiplied by where the model's own start scale is 1, as a function of the
// first time, with its derivative.
ScaleTimePoint unit_start(const CoordinatesPtr& coordinates, double time) {
  if (!coordinates) return {time, 1, 1, 0};
  ScaleTimePoint at = coordinates->to_canonical->at(last_inside(*coordinates->canonical, time));
  const double factor = coordinates->start_factor();
  return {at.t, at.s / factor, at.t_dot, at.s_dot / factor};
}
double start_scale_at(const CoordinatesPtr& coordinates, double time) {
  return unit_start(coordinates, time).s;
}
Dual start_scale_at(const CoordinatesPtr& coordinates, const Dual& time) {
  const ScaleTimePoint at = unit_start(coordinates, time.value);
  return chain(at.s, at.s_dot, time, 0, Dual());
}

// Rounding may lift the last times a hair above 1.
NsSolver with_times_in_range(NsSolver solver) {
  for (double& t : solver.times) t = std::min(t, 1.0);
  return solver;
}

// The inverse, for increments from 0 to the first of these times, between them, and to 1.
std::vector<double> logits_from_times(const std::vector<double>& times) {
  const auto count = static_cast<double>(times.size());
  std::vector<double> logits;
  double previous = 0, total = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double end = i + 1 == times.size() ? 1 : times[i];
    logits.push_back(std::max(end - previous, kLeastIncrement / count));
    total += logits.back();
    previous = end;
  }
  for (double& logit : logits) logit = std::log(logit / total);
  return logits;
}

std::vector<Dual> variables(const std::vector<double>& values) {
  std::vector<Dual> duals;
  for (size_t i = 0; i < values.size(); ++i) {
    duals.push_back(Dual::variable(values[i], i, values.size()));
  }
  return duals;
}

Matrix jacobian_of(const std::vector<Dual>& coefficients, size_t parameters) {
  Matrix matrix(coefficients.size(), parameters);
  for (size_t i = 0; i < coefficients.size(); ++i) {
    std::copy(coefficients[i].gradient.begin(), coefficients[i].gradient.end(),
              matrix.values.begin() + static_cast<std::ptrdiff_t>(i * parameters));
  }
  return matrix;
}

// A family given by one function template on theta's scalar type.
template <class Map>
class MappedFamily : public Family {
 public:
  explicit MappedFamily(Map map) : map_(std::move(map)) {}
  FamilyPtr in_coordinates(const CoordinatesPtr& coordinates) const override {
    return std::make_shared<MappedFamily>(map_.in_coordinates(coordinates));
  }
  NsSolver in_own_coordinates(const NsSolver& solver) const override {
    return map_.in_own_coordinates(solver);
  }
  std::string name() const override { return map_.name(); }
  SolverShape shape() const override { return map_.shape(); }
  bool is_bns() const override { return Map::kIsBns; }
  size_t parameter_count() const override { return map_.parameter_count(); }
  NsSolver solver(const std::vector<double>& theta) const override {
    NsSolver solver = with_times_in_range(solver_of(map_.shape(), map_.coefficients(theta)));
    solver.times = map_.rounded(solver.times);
    return solver;
  }
  Matrix jacobian(const std::vector<double>& theta) const override {
    return jacobian_of(map_.coefficients(variables(theta)), theta.size());
  }
  std::vector<size_t> last_step() const override { return map_.last_step(); }
  std::vector<size_t> rounded_parameters() const override { return map_.rounded_parameters(); }
  std::vector<double> parameters(const NsSolver& solver) const override {
    solver.validate();
    const SolverShape shape = map_.shape();
    if (solver.nfe() != shape.nfe) {
      throw bad_input("a solver of {} evaluations cannot start a family of {}", solver.nfe(),
                      shape.nfe);
    }
    if (!(solver.shape() == shape)) {
      throw bad_input("a solver whose guided steps are [{}] cannot start a family of [{}]",
                      fmt::join(solver.guided, ", "), fmt::join(shape.guided, ", "));
    }
    return map_.parameters(solver);
  }

 private:
  Map map_;
};

// The first time raised to where it can be moved, and a start scale that is held moved into the
// coefficients of x_0.
NsSolver with_start_of(const BnsConstraints& constraints, NsSolver solver) {
  std::vector<double>& times = solver.times;
  times.front() = std::max(times.front(), kLeastFirstTime / static_cast<double>(times.size()));
  if (constraints.unit_start_scale) {
    const double scale = start_scale_at(constraints.coordinates, times.front());
    for (double& a : solver.a) a *= solver.start_scale / scale;
    solver.start_scale = scale;
  }
  return solver;
}

// The state as a linear form in x_0, u_0, u_1 ...; Trace's LinearForm on any scalar type.
template <class T>
using Form = std::vector<T>;

template <class T>
Form<T> scaled(const T& factor, Form<T> form) {
  for (T& value : form) value = factor * value;
  return form;
}

struct BnsMap {
  static constexpr bool kIsBns = true;
  SolverShape of;
  BnsConstraints constraints;

  const SolverShape& shape() const { return of; }
  size_t size() const { return static_cast<size_t>(of.nfe); }

  std::string name() const {
    std::string text = "bns";
    if (of.guides_itself()) text += fmt::format(", guided steps {}", fmt::join(of.guided, " "));
    if (constraints.unit_start_scale) text += ", start scale 1";
    if (!constraints.times.is_free()) text += ", times " + to_string(constraints.times);
    return text;
  }

  size_t parameter_count() const {
    return coefficient_count(of) - (constraints.unit_start_scale ? 1 : 0);
  }

  template <class T>
  std::vector<T> coefficients(const std::vector<T>& theta) const {
    std::vector<T> values = times_from_logits(theta.data(), size() + 1);
    values.insert(values.end(), theta.begin() + of.nfe + 1, theta.end());
    if (constraints.unit_start_scale) {
      const T scale = start_scale_at(constraints.coordinates, values.front());
      values.insert(values.begin() + scale_index(), scale);
    }
    return values;
  }

  BnsMap in_coordinates(const CoordinatesPtr& coordinates) const {
    BnsMap map = *this;
    map.constraints.coordinates = coordinates;
    return map;
  }

  // What it is held to is exact there, whatever translating rounds.
  NsSolver in_own_coordinates(const NsSolver& solver) const {
    if (!constraints.coordinates) return solver;
    NsSolver native = to_own(solver, *constraints.coordinates);
    if (constraints.unit_start_scale) native.start_scale = 1;
    native.times = rounded_times(constraints.times, native.times, *constraints.coordinates->own);
    return native;
  }

  std::vector<double> rounded(const std::vector<double>& times) const {
    const CoordinatesPtr& coordinates = constraints.coordinates;
    if (!coordinates || constraints.times.is_free()) {
      return rounded_times(constraints.times, times);
    }
    std::vector<double> native;
    for (const double time : times) native.push_back(coordinates->own_time(time));
    native = rounded_times(constraints.times, native, *coordinates->own);
    for (double& time : native) time = coordinates->canonical_time(time);
    return native;
  }

  std::vector<size_t> last_step() const {
    std::vector<size_t> indices;
    for (size_t column = 0; column < of.columns(size() - 1); ++column) {
      const size_t index = step_coefficient_index(of, size() - 1, column);
      const bool behind = index > start_scale_index(of);
      indices.push_back(behind && constraints.unit_start_scale ? index - 1 : index);
    }
    return indices;
  }

  std::vector<size_t> rounded_parameters() const {
    std::vector<size_t> indices;
    if (constraints.times.is_free()) return indices;
    for (size_t i = 0; i <= size(); ++i) indices.push_back(i);
    return indices;
  }

  std::ptrdiff_t scale_index() const { return static_cast<std::ptrdiff_t>(start_scale_index(of)); }

  std::vector<double> parameters(const NsSolver& given) const {
    const NsSolver solver = with_start_of(constraints, given);
    std::vector<double> theta = logits_from_times(rounded(solver.times));
    const std::vector<double> values = coefficients_of(solver);
    theta.insert(theta.end(), values.begin() + of.nfe + 1, values.end());
    if (constraints.unit_start_scale) theta.erase(theta.begin() + scale_index());
    return theta;
  }
};

// left_factor left + right_factor u_j, with u_j the velocity after those `left` knows.
template <class T>
Form<T> with_velocity(const T& left_factor, const Form<T>& left, const T& right_factor) {
  Form<T> form = scaled(left_factor, left);
  form.push_back(right_factor);
  return form;
}

// The scale-time values at the points of evaluation k = 0 ... N-1; s also at N.
template <class T>
struct ScaleTimeValues {
  std::vector<T> t, t_dot, s, s_dot;
};

struct HistoryMap {
  static constexpr bool kIsBns = false;
  size_t history;
  int nfe;
  BnsConstraints constraints;

  SolverShape shape() const { return nfe; }
  size_t size() const { return static_cast<size_t>(nfe); }
  // The oldest velocity that step i is made of.
  size_t first(size_t i) const { return i + 1 > history ? i + 1 - history : 0; }

  std::string name() const {
    return fmt::format("bns-history:{}{}", history,
                       constraints.unit_start_scale ? ", start scale 1" : "");
  }

  size_t parameter_count() const {
    size_t count = size() + 1 + (constraints.unit_start_scale ? 0 : 1);
    for (size_t i = 0; i < size(); ++i) count += i + 2 - first(i);
    return count;
  }

  HistoryMap in_coordinates(const CoordinatesPtr& coordinates) const {
    HistoryMap map = *this;
    map.constraints.coordinates = coordinates;
    return map;
  }
  NsSolver in_own_coordinates(const NsSolver& solver) const {
    return BnsMap{shape(), constraints}.in_own_coordinates(solver);
  }
  std::vector<size_t> last_step() const { return {}; }
  std::vector<size_t> rounded_parameters() const { return {}; }
  std::vector<double> rounded(const std::vector<double>& times) const { return times; }

  template <class T>
  std::vector<T> coefficients(const std::vector<T>& theta) const {
    std::vector<T> values = times_from_logits(theta.data(), size() + 1);
    std::vector<Form<T>> states = {{T(1.0)}};
    size_t next = size() + 1;
    for (size_t i = 0; i < size(); ++i) {
      Form<T> state = scaled(theta[next++], states[i]);
      state.push_back(T(0.0));
      for (size_t j = first(i); j <= i; ++j) state[j + 1] = state[j + 1] + theta[next++];
      states.push_back(state);
    }
    for (size_t i = 1; i < states.size(); ++i) values.push_back(states[i].front());
    for (size_t i = 1; i < states.size(); ++i) {
      values.insert(values.end(), states[i].begin() + 1, states[i].end());
    }
    const T unit = start_scale_at(constraints.coordinates, values.front());
    values.push_back(constraints.unit_start_scale ? unit : theta[next]);
    return values;
  }

  std::vector<double> parameters(const NsSolver& given) const;
};

struct BstMap {
  static constexpr bool kIsBns = false;
  ScaleTimeBase base;
  int nfe;
  CoordinatesPtr coordinates = nullptr;

  SolverShape shape() const { return nfe; }
  // A scale-time solver is one in all coordinates.
  BstMap in_coordinates(const CoordinatesPtr& there) const { return {base, nfe, there}; }
  NsSolver in_own_coordinates(const NsSolver& solver) const {
    return coordinates ? to_own(solver, *coordinates) : solver;
  }
  std::string name() const { return base == ScaleTimeBase::rk1 ? "bst-rk1" : "bst-rk2"; }
  size_t size() const { return static_cast<size_t>(nfe); }
  size_t parameter_count() const { return 4 * size(); }
  std::vector<size_t> last_step() const { return {}; }
  std::vector<size_t> rounded_parameters() const { return {}; }
  std::vector<double> rounded(const std::vector<double>& times) const { return times; }
  double step() const { return (base == ScaleTimeBase::rk1 ? 1. : 2.) / nfe; }

  template <class T>
  ScaleTimeValues<T> values(const std::vector<T>& theta) const {
    using std::exp;
    ScaleTimeValues<T> v;
    v.t = times_from_logits(theta.data(), size());
    v.t.insert(v.t.begin(), T(0.0));
    v.s.push_back(T(1.0));
    for (size_t k = 0; k < size(); ++k) {
      v.t_dot.push_back(exp(theta[size() + k]));
      v.s.push_back(exp(theta[2 * size() + k]));
      v.s_dot.push_back(theta[3 * size() + k]);
    }
    return v;
  }

  // The states x_1 ... x_N at which the field is evaluated next, as forms.
  template <class T>
  std::vector<Form<T>> euler_states(const ScaleTimeValues<T>& v) const {
    const T h = step();
    std::vector<Form<T>> states;
    Form<T> x = {T(1.0)};
    for (size_t k = 0; k < size(); ++k) {
      x = with_velocity<T>((v.s[k] + h * v.s_dot[k]) / v.s[k + 1], x,
                           h * v.t_dot[k] * v.s[k] / v.s[k + 1]);
      states.push_back(x);
    }
    return states;
  }

  template <class T>
  std::vector<Form<T>> midpoint_states(const ScaleTimeValues<T>& v) const {
    const T h = step(), half = step() / 2;
    std::vector<Form<T>> states;
    Form<T> x = {T(1.0)};
    for (size_t k = 0; k < size(); k += 2) {
      const Form<T> z = with_velocity<T>(v.s[k] + half * v.s_dot[k], x, half * v.s[k] * v.t_dot[k]);
      states.push_back(scaled(T(1.0) / v.s[k + 1], z));
      const T from_z = h * v.s_dot[k + 1] / v.s[k + 1];
      Form<T> next = with_velocity<T>(v.s[k], x, T(0.0));
      for (size_t j = 0; j < next.size(); ++j) next[j] = next[j] + from_z * z[j];
      x = with_velocity<T>(T(1.0) / v.s[k + 2], next, h * v.t_dot[k + 1] * v.s[k + 1] / v.s[k + 2]);
      states.push_back(x);
    }
    return states;
  }

  template <class T>
  std::vector<T> coefficients(const std::vector<T>& theta) const {
    const ScaleTimeValues<T> v = values(theta);
    const auto states = base == ScaleTimeBase::rk1 ? euler_states(v) : midpoint_states(v);
    std::vector<T> result = v.t;
    for (const auto& state : states) result.push_back(state.front());
    for (const auto& state : states) result.insert(result.end(), state.begin() + 1, state.end());
    result.push_back(T(1.0));
    return result;
  }

  std::vector<double> parameters(const NsSolver& solver) const;
};

// What x_k is made of: x_0, then u_0, u_1 ...
Form<double> state_form(const NsSolver& solver, size_t k) {
  Form<double> values = {k == 0 ? 1 : solver.a[k - 1]};
  if (k > 0) values.insert(values.end(), solver.b[k - 1].begin(), solver.b[k - 1].end());
  return values;
}

// x_{i+1} = state x_k + sum_j velocity_j u_j over the velocities from `oldest` on: what a step that
// starts from x_k alone is. Throws where step i of the solver is not of that form.
struct OneStep {
  double state;
  std::vector<double> velocities;
};

OneStep step_from(const NsSolver& solver, size_t k, size_t i, size_t oldest) {
  const Form<double> from = state_form(solver, k), to = state_form(solver, i + 1);
  // What only x_k knows of: x_0 and the velocities before the oldest.
  const auto offset = static_cast<std::ptrdiff_t>(oldest) + 1;
  const auto largest =
      std::max_element(from.begin(), from.begin() + offset,
                       [](double left, double right) { return std::abs(left) < std::abs(right); });
  const double ratio = to[static_cast<size_t>(largest - from.begin())] / *largest;
  constexpr double kTolerance = 1e-9;
  OneStep step = {ratio, {to.begin() + offset, to.end()}};
  for (size_t j = 0; j < from.size(); ++j) {
    const double rest = to[j] - ratio * from[j];
    if (j > oldest) {
      step.velocities[j - oldest - 1] = rest;
    } else if (!(std::abs(rest) <= kTolerance * (1 + std::abs(to[j])))) {
      throw bad_input("step {} uses more than the state and velocities of its own {}", i,
                      oldest < k ? "history" : "step");
    }
  }
  return step;
}

std::vector<double> HistoryMap::parameters(const NsSolver& given) const {
  const NsSolver solver = with_start_of(constraints, given);
  std::vector<double> theta = logits_from_times(solver.times);
  for (size_t i = 0; i < size(); ++i) {
    const OneStep step = step_from(solver, i, i, first(i));
    theta.push_back(step.state);
    theta.insert(theta.end(), step.velocities.begin(), step.velocities.end());
  }
  if (!constraints.unit_start_scale) theta.push_back(solver.start_scale);
  return theta;
}

double positive(double value, const char* what, size_t step) {
  if (value > 0) return value;
  throw bad_input("step {} needs {} = {}, which a scale-time solver must have positive", step, what,
                  value);
}

// The inverse chooses s = 1 wherever there is a choice: at all points of an rk1 solver, and at the
// half steps of an rk2 solver relative to the step's start.
std::vector<double> BstMap::parameters(const NsSolver& solver) const {
  constexpr double kRounding = 1e-9;
  if (solver.times.front() > kRounding || std::abs(solver.start_scale - 1) > kRounding) {
    throw bad_input("a scale-time solver starts at t = 0 from the noise itself, this one at t = {}",
                    solver.times.front());
  }
  const double h = step();
  std::vector<double> log_t_dot, log_s, s_dot;
  if (base == ScaleTimeBase::rk1) {
    for (size_t k = 0; k < size(); ++k) {
      const OneStep one = step_from(solver, k, k, k);
      log_t_dot.push_back(std::log(positive(one.velocities[0] / h, "t_dot", k)));
      log_s.push_back(0);
      s_dot.push_back((one.state - 1) / h);
    }
  } else {
    double s = 1;
    for (size_t k = 0; k < size(); k += 2) {
      const OneStep half = step_from(solver, k, k, k), full = step_from(solver, k, k + 1, k);
      // With s_half = s: x_half = (1 + h/2 s_dot/s) x + h/2 t_dot u. Then the u of the full step
      // gives s_dot_half / s_next, and its x what is left for s / s_next.
      const double ratio = full.velocities[0] / half.velocities[0];
      const double shrink = positive(full.state - ratio * half.state, "s / s_next", k);
      log_t_dot.push_back(std::log(positive(2 * half.velocities[0] / h, "t_dot", k)));
      s_dot.push_back(2 * (half.state - 1) / h * s);
      log_s.push_back(std::log(s));
      log_t_dot.push_back(std::log(positive(full.velocities[1] / (h * shrink), "t_dot", k + 1)));
      s_dot.push_back(ratio / (h * shrink) * s);
      s /= shrink;
      log_s.push_back(std::log(s));
    }
  }
  std::vector<double> theta = logits_from_times({solver.times.begin() + 1, solver.times.end()});
  for (const auto* part : {&log_t_dot, &log_s, &s_dot}) {
    theta.insert(theta.end(), part->begin(), part->end());
  }
  return theta;
}

class TimesFamily : public Family {
 public:
  TimesFamily(std::string method, int nfe, SchedulePtr schedule, CoordinatesPtr coordinates)
      : method_(std::move(method)),
        nfe_(nfe),
        schedule_(std::move(schedule)),
        coordinates_(std::move(coordinates)),
        entry_(entry_of(SolverName::parse(method_))) {
    if (entry_.steps(nfe) * entry_.evaluations_per_step != nfe) {
      throw usage_error("{} takes {} evaluations per step, which {} are no multiple of", method_,
                        entry_.evaluations_per_step, nfe);
    }
  }

  FamilyPtr in_coordinates(const CoordinatesPtr& coordinates) const override {
    return std::make_shared<TimesFamily>(method_, nfe_, schedule_, coordinates);
  }
  NsSolver in_own_coordinates(const NsSolver& solver) const override {
    return coordinates_ ? to_own(solver, *coordinates_) : solver;
  }
  std::string name() const override { return "times:" + method_; }
  SolverShape shape() const override { return nfe_; }
  bool is_bns() const override { return false; }
  size_t parameter_count() const override { return steps() + 1; }
  std::vector<size_t> last_step() const override { return {}; }
  std::vector<size_t> rounded_parameters() const override { return {}; }

  NsSolver solver(const std::vector<double>& theta) const override {
    std::vector<double> times = times_from_logits(theta.data(), steps() + 1);
    times.back() = 1;
    if (coordinates_) {
      for (double& time : times) time = coordinates_->own_time(time);
    }
    const NsSolver native = on_times(method_, times, schedule_);
    return coordinates_ ? to_canonical(native, *coordinates_) : native;
  }

  Matrix jacobian(const std::vector<double>& theta) const override {
    constexpr double kStep = 1e-5;
    Matrix matrix(coefficient_count(shape()), theta.size());
    for (size_t j = 0; j < theta.size(); ++j) {
      std::vector<double> up = theta, down = theta;
      up[j] += kStep;
      down[j] -= kStep;
      const auto high = coefficients_of(solver(up)), low = coefficients_of(solver(down));
      for (size_t i = 0; i < high.size(); ++i) matrix(i, j) = (high[i] - low[i]) / (2 * kStep);
    }
    return matrix;
  }

  std::vector<double> parameters(const NsSolver& solver) const override {
    if (solver.nfe() != nfe_) {
      throw bad_input("a solver of {} evaluations cannot start a family of {}", solver.nfe(), nfe_);
    }
    std::vector<double> times;
    for (size_t k = 0; k <= steps(); ++k) {
      times.push_back(solver.times[k * static_cast<size_t>(entry_.evaluations_per_step)]);
    }
    times.front() = std::max(times.front(), kLeastFirstTime / static_cast<double>(times.size()));
    return logits_from_times(times);
  }

 private:
  size_t steps() const { return static_cast<size_t>(entry_.steps(nfe_)); }

  std::string method_;
  int nfe_;
  SchedulePtr schedule_;
  CoordinatesPtr coordinates_;
  CatalogueEntry entry_;
};

}  // namespace

FamilyPtr history_family(int history, int nfe, const BnsConstraints& constraints) {
  if (history < 1) throw usage_error("a history needs at least 1 step, found {}", history);
  if (!constraints.times.is_free()) {
    throw usage_error("times of solvers of bounded history are not rounded; leave that to bns");
  }
  return std::make_shared<MappedFamily<HistoryMap>>(
      HistoryMap{static_cast<size_t>(history), nfe, constraints});
}

FamilyPtr times_family(const std::string& method, int nfe, const SchedulePtr& schedule) {
  return std::make_shared<TimesFamily>(method, nfe, schedule, nullptr);
}

FamilyPtr bns_family(const SolverShape& shape, const BnsConstraints& constraints) {
  return std::make_shared<MappedFamily<BnsMap>>(BnsMap{shape, constraints});
}

FamilyPtr bst_family(ScaleTimeBase base, int nfe) {
  if (base == ScaleTimeBase::rk2 && nfe % 2 != 0) {
    throw usage_error("scale-time midpoint steps need an even number of evaluations, found {}",
                      nfe);
  }
  return std::make_shared<MappedFamily<BstMap>>(BstMap{base, nfe});
}

}  // namespace bespoke
