#pragma once

#include <memory>

#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

// A scale-time transformation at one r: the path bar x(r) = s_r x(t_r).
struct ScaleTimePoint {
  double t, s, t_dot, s_dot;
};

// t_r and s_r > 0 with their derivatives, for r in [0, 1]. It turns a velocity field u into
//   bar u_r(x) = (s' / s) x + t' s u_{t_r}(x / s).
class ScaleTime {
 public:
  virtual ~ScaleTime() = default;
  virtual ScaleTimePoint at(double r) const = 0;
};
using ScaleTimePtr = std::shared_ptr<const ScaleTime>;

// The transformation that moves a model from one schedule to another:
//   t_r = snr^-1(bar snr(r)),  s_r = bar alpha / alpha = bar sigma / sigma.
// Where bar snr(r) leaves the range of snr, t is clipped and s follows the larger of the two.
ScaleTimePtr schedule_change(SchedulePtr from, SchedulePtr to);

// And back: the schedule a transformation leads to, bar alpha = s alpha(t), bar sigma = s sigma(t).
SchedulePoint transformed_point(const Schedule& schedule, const ScaleTimePoint& point);

// First `inner`, then `outer` on top of it: bar bar x(q) = s_outer(q) bar x(r_outer(q)).
ScaleTimePtr compose(ScaleTimePtr inner, ScaleTimePtr outer);

// Instances. sigma_0 preconditioning is a change to preconditioned_schedule; EDM's is a change to
// edm_schedule. The exponential integrator keeps time and divides by psi = alpha for noise
// predictions and psi = sigma for data predictions, which removes the linear part of the field.
ScaleTimePtr preconditioning(SchedulePtr schedule, double sigma_0);
ScaleTimePtr edm_transform(SchedulePtr schedule, double sigma_max = 80);
ScaleTimePtr exponential_transform(SchedulePtr schedule, Prediction prediction);

}  // namespace bespoke
