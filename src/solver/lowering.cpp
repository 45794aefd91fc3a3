#include "bespoke/solver/lowering.h"

#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

// Where a state lives and how its velocity follows from what is evaluated there: x = scale y and
// u = velocity.state x + velocity.output f.
struct Place {
  double scale;
  Affine<double> velocity;
};

// With x_j = s_j y_j and u_j = p_j x_j + q_j f_j the update rule is one on y and f.
NsSolver rewritten(const NsSolver& solver, const std::vector<double>& times,
                   const std::vector<Place>& places) {
  std::vector<UpdateRule> rules(solver.a.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    UpdateRule& rule = rules[i];
    const double next_scale = places[i + 1].scale;
    for (size_t j = 0; j <= i; ++j) {
      const double b = solver.b[i][j] / next_scale;
      rule.c.push_back(b * places[j].velocity.state * places[j].scale);
      rule.d.push_back(b * places[j].velocity.output);
    }
    rule.c[0] += solver.a[i] * places[0].scale / next_scale;
  }
  return from_update_rules(times, rules);
}

// The times of the evaluations, moved inside where they must be, and the end as it is.
std::vector<double> safe_times(const NsSolver& solver, Prediction prediction,
                               const Schedule& schedule, double margin) {
  std::vector<double> times = solver.times;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    times[i] = safe_velocity_time(prediction, schedule, times[i], margin);
  }
  return times;
}

std::vector<double> sigmas_at(const Schedule& schedule, const std::vector<double>& times) {
  std::vector<double> sigmas;
  for (const double t : times) sigmas.push_back(tool_sigma(schedule, t));
  return sigmas;
}

// The states x / alpha and d = E, or x and d = -u / alpha' on a flow path.
Place sigma_place(const Schedule& schedule, bool flow, double t) {
  const SchedulePoint p = schedule.at(t);
  if (flow) return {1, {0, -p.alpha_dot}};
  if (p.alpha == 0) {
    throw bad_input(
        "the solver evaluates the model at t = {}, where alpha = 0 and states x / alpha are "
        "infinite; take one that begins later, for instance on the grid lambda-range",
        t);
  }
  return {p.alpha, velocity_from(Prediction::noise, p)};
}

}  // namespace

bool is_flow(const Schedule& schedule) {
  constexpr double kRounding = 1e-12;
  for (const double t : {0.25, 0.5, 0.75}) {
    if (std::abs(schedule.alpha(t) + schedule.sigma(t) - 1) > kRounding) return false;
  }
  return true;
}

double tool_sigma(const Schedule& schedule, double t) {
  const double sigma = schedule.sigma(t);
  return (is_flow(schedule) ? sigma : sigma / schedule.alpha(t)) + 0.0;  // no -0 at the end
}

LoweredSolver lower(const NsSolver& solver, Prediction prediction, const Schedule& schedule,
                    double margin) {
  solver.validate();
  require_one_velocity(solver, "an export to raw outputs");
  const std::vector<double> times = safe_times(solver, prediction, schedule, margin);
  std::vector<Place> places;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    places.push_back({1, velocity_from(prediction, schedule.at(times[i]))});
  }
  places.push_back({1, {0, 0}});  // nothing is evaluated at the end
  const NsSolver lowered = rewritten(solver, times, places);
  return {prediction, times, sigmas_at(schedule, times), lowered.a, lowered.b, solver.start_scale};
}

SigmaSolver lower_to_sigmas(const NsSolver& solver, const Schedule& schedule, double margin) {
  solver.validate();
  require_one_velocity(solver, "an export to sigmas");
  const bool flow = is_flow(schedule);
  // d is found from D, so no evaluation may have sigma = 0.
  const std::vector<double> times = safe_times(solver, Prediction::data, schedule, margin);
  std::vector<Place> places;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    places.push_back(sigma_place(schedule, flow, times[i]));
  }
  places.push_back({flow ? 1 : schedule.alpha(times.back()), {0, 0}});
  const NsSolver lowered = rewritten(solver, times, places);
  const double noise = solver.start_scale * schedule.source_std() / places.front().scale;
  return {times, sigmas_at(schedule, times), lowered.a, lowered.b, noise};
}

}  // namespace bespoke
