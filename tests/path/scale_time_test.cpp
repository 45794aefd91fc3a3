#include "bespoke/path/scale_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bespoke {
namespace {

void expect_derivatives(const ScaleTime& transform, double r) {
  const double h = 1e-6;
  const ScaleTimePoint p = transform.at(r), up = transform.at(r + h), down = transform.at(r - h);
  EXPECT_NEAR(p.t_dot, (up.t - down.t) / (2 * h), 1e-6 * (1 + std::abs(p.t_dot)));
  EXPECT_NEAR(p.s_dot, (up.s - down.s) / (2 * h), 1e-6 * (1 + std::abs(p.s_dot)));
}

// The schedule a transformation leads to: bar alpha = s alpha(t), bar sigma = s sigma(t).
SchedulePoint transformed_point(const Schedule& schedule, const ScaleTimePoint& point) {
  const SchedulePoint p = schedule.at(point.t);
  const double sigma = point.s * p.sigma;
  const double alpha_dot = point.s_dot * p.alpha + point.s * p.alpha_dot * point.t_dot;
  const double sigma_dot = point.s_dot * p.sigma + point.s * p.sigma_dot * point.t_dot;
  return {point.s * p.alpha, sigma, alpha_dot, sigma_dot, sigma * sigma_dot};
}

TEST(ScaleTime, FromFmOtIsTheChangeFromFmOt) {
  for (const auto& schedule :
       {fm_ot_schedule(), cosine_schedule(), vp_schedule(), edm_schedule()}) {
    const auto change = schedule_change(fm_ot_schedule(), schedule);
    for (const double t : {0.0, 0.1, 0.37, 0.62, 0.9}) {
      const ScaleTimePoint got = from_fm_ot(*schedule, t), want = change->at(t);
      EXPECT_NEAR(got.t, want.t, 1e-14);
      EXPECT_NEAR(got.s, want.s, 1e-12);
      EXPECT_NEAR(got.t_dot, want.t_dot, 1e-11);
      EXPECT_NEAR(got.s_dot, want.s_dot, 1e-10);
    }
  }
}

TEST(ScaleTime, AScheduleChangeLeadsToThatSchedule) {
  const std::vector<SchedulePtr> schedules = {fm_ot_schedule(), cosine_schedule(), vp_schedule(),
                                              preconditioned_schedule(fm_ot_schedule(), 3)};
  for (const auto& from : schedules) {
    for (const auto& to : schedules) {
      const auto change = schedule_change(from, to);
      for (const double r : {0.1, 0.37, 0.62, 0.9}) {
        expect_derivatives(*change, r);
        const SchedulePoint got = transformed_point(*from, change->at(r)), want = to->at(r);
        EXPECT_NEAR(got.alpha, want.alpha, 1e-12);
        EXPECT_NEAR(got.sigma, want.sigma, 1e-12);
        EXPECT_NEAR(got.alpha_dot, want.alpha_dot, 1e-10);
        EXPECT_NEAR(got.sigma_dot, want.sigma_dot, 1e-10);
      }
    }
  }
}

// First `inner`, then `outer` on top of it: bar bar x(q) = s_outer(q) bar x(r_outer(q)).
ScaleTimePoint composed(const ScaleTime& inner, const ScaleTime& outer, double q) {
  const ScaleTimePoint o = outer.at(q), i = inner.at(o.t);
  return {i.t, o.s * i.s, i.t_dot * o.t_dot, o.s_dot * i.s + o.s * i.s_dot * o.t_dot};
}

TEST(ScaleTime, ThereAndBackIsTheIdentity) {
  const auto there = schedule_change(fm_ot_schedule(), cosine_schedule());
  const auto back = schedule_change(cosine_schedule(), fm_ot_schedule());
  for (const double r : {0.0, 0.05, 0.5, 0.95, 1.0}) {
    const ScaleTimePoint p = composed(*there, *back, r);
    EXPECT_NEAR(p.t, r, 1e-13);
    EXPECT_NEAR(p.s, 1, 1e-13);
    EXPECT_NEAR(p.t_dot, 1, 1e-12);
    EXPECT_NEAR(p.s_dot, 0, 1e-12);
  }
}

TEST(ScaleTime, ChangesThroughAThirdScheduleAreTheDirectOne) {
  const auto first = schedule_change(fm_ot_schedule(), vp_schedule());
  const auto second = schedule_change(vp_schedule(), cosine_schedule());
  const auto direct = schedule_change(fm_ot_schedule(), cosine_schedule());
  for (const double r : {0.2, 0.5, 0.8}) {
    const ScaleTimePoint p = composed(*first, *second, r), expected = direct->at(r);
    EXPECT_NEAR(p.t, expected.t, 1e-12);
    EXPECT_NEAR(p.s, expected.s, 1e-12);
    EXPECT_NEAR(p.t_dot, expected.t_dot, 1e-11);
    EXPECT_NEAR(p.s_dot, expected.s_dot, 1e-11);
  }
}

TEST(ScaleTime, Sigma0HasItsClosedFormOnFmOt) {
  const double sigma_0 = 5;
  const SchedulePtr fm = fm_ot_schedule();
  const auto transform = schedule_change(fm, preconditioned_schedule(fm, sigma_0));
  for (const double r : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const ScaleTimePoint p = transform->at(r);
    const double s = r + sigma_0 * (1 - r);
    EXPECT_NEAR(p.s, s, 1e-12);
    EXPECT_NEAR(p.t, r / s, 1e-12);
    EXPECT_NEAR(p.s_dot, 1 - sigma_0, 1e-11);
    EXPECT_NEAR(p.t_dot, sigma_0 / (s * s), 1e-11);
  }
}

TEST(ScaleTime, TheChangeToEdmHasItsClosedForm) {
  const SchedulePtr vp = vp_schedule();
  const auto transform = schedule_change(vp, edm_schedule(80));
  for (const double r : {0.05, 0.4, 0.9, 0.999}) {
    const ScaleTimePoint p = transform->at(r);
    EXPECT_NEAR(p.s, 1 / vp->alpha(p.t), 1e-9);
    EXPECT_NEAR(vp->snr(p.t) * 80 * (1 - r), 1, 1e-9);
  }
}

TEST(ScaleTime, IsFiniteAtBothEnds) {
  for (const auto& from : {fm_ot_schedule(), cosine_schedule(), vp_schedule()}) {
    for (const auto& to : {fm_ot_schedule(), cosine_schedule()}) {
      for (const double r : {0.0, 1.0}) {
        const ScaleTimePoint p = schedule_change(from, to)->at(r);
        EXPECT_TRUE(std::isfinite(p.t) && std::isfinite(p.s) && p.s > 0 && std::isfinite(p.t_dot) &&
                    std::isfinite(p.s_dot))
            << from->name() << " to " << to->name() << " at " << r;
      }
    }
  }
}

}  // namespace
}  // namespace bespoke
