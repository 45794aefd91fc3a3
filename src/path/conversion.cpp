#include "bespoke/path/conversion.h"

namespace bespoke {

ModelCall velocity_call(Prediction prediction, const Schedule& schedule, double t, double margin) {
  const double safe = safe_velocity_time(prediction, schedule, t, margin);
  return {safe, 1, velocity_from(prediction, schedule.at(safe))};
}

DataCall data_call(Prediction prediction, const Schedule& schedule, double t, double margin) {
  const double safe = safe_time(prediction, schedule, t, margin);
  return {safe, data_from(prediction, schedule.at(safe))};
}

ModelCall rescheduled_call(Prediction prediction, const Schedule& schedule,
                           const ScaleTime& transform, const Schedule& to, double r,
                           double margin) {
  const ScaleTimePoint point = transform.at(r);
  const double t = safe_time(prediction, schedule, point.t, margin);
  const SchedulePoint source = schedule.at(t), target = to.at(r);
  const Affine<double> data = data_from(prediction, source);
  const Affine<double> noise = noise_from(prediction, source);
  return {t,
          1 / point.s,
          {target.alpha_dot * data.state + target.sigma_dot * noise.state,
           target.alpha_dot * data.output + target.sigma_dot * noise.output}};
}

Crossing crossing_of(Prediction prediction, const Schedule& schedule, double start, double end,
                     double margin) {
  return {start, end, safe_time(prediction, schedule, start, margin),
          safe_time(prediction, schedule, end, margin)};
}

Affine<double> bridge_step(Prediction prediction, const Schedule& schedule, double from, double to,
                           double at) {
  const Affine<double> data = data_from(prediction, schedule.at(at));
  const SchedulePoint start = schedule.at(from), end = schedule.at(to);
  const double ratio = end.sigma / start.sigma, weight = end.alpha - start.alpha * ratio;
  return {ratio + weight * data.state, weight * data.output};
}

}  // namespace bespoke
