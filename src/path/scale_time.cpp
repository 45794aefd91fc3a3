#include "bespoke/path/scale_time.h"

#include <utility>

namespace bespoke {

namespace {

class ScheduleChange : public ScaleTime {
 public:
  ScheduleChange(SchedulePtr from, SchedulePtr to) : from_(std::move(from)), to_(std::move(to)) {}

  ScaleTimePoint at(double r) const override {
    const double t = from_->time_at_lambda(to_->lambda(r));
    const SchedulePoint old_path = from_->at(t);
    const SchedulePoint new_path = to_->at(r);
    // Both quotients are s; the one with the larger denominator is never 0 / 0.
    const bool by_alpha = old_path.alpha >= old_path.sigma;
    const double s = by_alpha ? new_path.alpha / old_path.alpha : new_path.sigma / old_path.sigma;
    // lambda(t_r) = bar lambda(r) with lambda' = W / (alpha sigma) gives t' = bar W / (W s^2).
    const double t_dot = new_path.wronskian() / (old_path.wronskian() * s * s);
    const double s_dot =
        by_alpha ? (new_path.alpha_dot - s * old_path.alpha_dot * t_dot) / old_path.alpha
                 : (new_path.sigma_dot - s * old_path.sigma_dot * t_dot) / old_path.sigma;
    return {t, s, t_dot, s_dot};
  }

 private:
  SchedulePtr from_, to_;
};

}  // namespace

ScaleTimePtr schedule_change(SchedulePtr from, SchedulePtr to) {
  return std::make_shared<ScheduleChange>(std::move(from), std::move(to));
}

ScaleTimePoint from_fm_ot(const Schedule& schedule, double t) {
  const SchedulePoint p = schedule.at(t);
  const double s = p.alpha + p.sigma;
  return {p.alpha / s, s, p.wronskian() / (s * s), p.alpha_dot + p.sigma_dot};
}

}  // namespace bespoke
