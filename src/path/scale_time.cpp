#include "bespoke/path/scale_time.h"

#include <cmath>
#include <utility>

#include "bespoke/base/error.h"

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

class Composition : public ScaleTime {
 public:
  Composition(ScaleTimePtr inner, ScaleTimePtr outer)
      : inner_(std::move(inner)), outer_(std::move(outer)) {}

  ScaleTimePoint at(double q) const override {
    const ScaleTimePoint outer = outer_->at(q);
    const ScaleTimePoint inner = inner_->at(outer.t);
    return {inner.t, outer.s * inner.s, inner.t_dot * outer.t_dot,
            outer.s_dot * inner.s + outer.s * inner.s_dot * outer.t_dot};
  }

 private:
  ScaleTimePtr inner_, outer_;
};

class ExponentialTransform : public ScaleTime {
 public:
  ExponentialTransform(SchedulePtr schedule, Prediction prediction)
      : schedule_(std::move(schedule)), noise_(prediction == Prediction::noise) {
    if (prediction != Prediction::noise && prediction != Prediction::data) {
      throw usage_error("the exponential transform is for noise or data predictions, found '{}'",
                        to_string(prediction));
    }
  }

  ScaleTimePoint at(double r) const override {
    const Jet psi = noise_ ? schedule_->alpha_jet(r) : schedule_->sigma_jet(r);
    const Jet s = 1 / psi;
    return {r, s.value, 1, s.first};
  }

 private:
  SchedulePtr schedule_;
  bool noise_;
};

}  // namespace

ScaleTimePtr schedule_change(SchedulePtr from, SchedulePtr to) {
  return std::make_shared<ScheduleChange>(std::move(from), std::move(to));
}

SchedulePoint transformed_point(const Schedule& schedule, const ScaleTimePoint& point) {
  const SchedulePoint p = schedule.at(point.t);
  const double sigma = point.s * p.sigma;
  const double alpha_dot = point.s_dot * p.alpha + point.s * p.alpha_dot * point.t_dot;
  const double sigma_dot = point.s_dot * p.sigma + point.s * p.sigma_dot * point.t_dot;
  return {point.s * p.alpha, sigma, alpha_dot, sigma_dot, sigma * sigma_dot};
}

ScaleTimePtr compose(ScaleTimePtr inner, ScaleTimePtr outer) {
  return std::make_shared<Composition>(std::move(inner), std::move(outer));
}

ScaleTimePtr preconditioning(SchedulePtr schedule, double sigma_0) {
  return schedule_change(schedule, preconditioned_schedule(schedule, sigma_0));
}

ScaleTimePtr edm_transform(SchedulePtr schedule, double sigma_max) {
  return schedule_change(std::move(schedule), edm_schedule(sigma_max));
}

ScaleTimePtr exponential_transform(SchedulePtr schedule, Prediction prediction) {
  return std::make_shared<ExponentialTransform>(std::move(schedule), prediction);
}

}  // namespace bespoke
