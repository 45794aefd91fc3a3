#pragma once

#include <memory>

#include "bespoke/path/schedule.h"

namespace bespoke {

// A scale-time transformation at one r: the path bar x(r) = s_r x(t_r).
struct ScaleTimePoint {
  double t, s, t_dot, s_dot;
};

// A scale-time transformation: t_r and s_r > 0 with their derivatives, for r in [0, 1]. It turns a
// velocity field u into
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
// sigma_0 preconditioning is the change to preconditioned_schedule(from, sigma_0).
ScaleTimePtr schedule_change(SchedulePtr from, SchedulePtr to);

// The transformation from the FM-OT path to a schedule's: x(t) = s bar x(r) with r = alpha / (alpha
// + sigma) and s = alpha + sigma, r standing in the place of t.
ScaleTimePoint from_fm_ot(const Schedule& schedule, double t);

}  // namespace bespoke
