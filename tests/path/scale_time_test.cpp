#include "bespoke/path/scale_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

void expect_derivatives(const ScaleTime& transform, double r) {
  const double h = 1e-6;
  const ScaleTimePoint p = transform.at(r), up = transform.at(r + h), down = transform.at(r - h);
  EXPECT_NEAR(p.t_dot, (up.t - down.t) / (2 * h), 1e-6 * (1 + std::abs(p.t_dot)));
  EXPECT_NEAR(p.s_dot, (up.s - down.s) / (2 * h), 1e-6 * (1 + std::abs(p.s_dot)));
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

TEST(ScaleTime, ThereAndBackIsTheIdentity) {
  const auto there = schedule_change(fm_ot_schedule(), cosine_schedule());
  const auto back = schedule_change(cosine_schedule(), fm_ot_schedule());
  const auto round = compose(there, back);
  for (const double r : {0.0, 0.05, 0.5, 0.95, 1.0}) {
    const ScaleTimePoint p = round->at(r);
    EXPECT_NEAR(p.t, r, 1e-13);
    EXPECT_NEAR(p.s, 1, 1e-13);
    EXPECT_NEAR(p.t_dot, 1, 1e-12);
    EXPECT_NEAR(p.s_dot, 0, 1e-12);
  }
}

TEST(ScaleTime, CompositionObeysTheChainRule) {
  const auto both = compose(schedule_change(fm_ot_schedule(), vp_schedule()),
                            schedule_change(vp_schedule(), cosine_schedule()));
  for (const double r : {0.2, 0.5, 0.8}) {
    expect_derivatives(*both, r);
    const ScaleTimePoint direct = schedule_change(fm_ot_schedule(), cosine_schedule())->at(r);
    EXPECT_NEAR(both->at(r).t, direct.t, 1e-12);
    EXPECT_NEAR(both->at(r).s, direct.s, 1e-12);
  }
}

TEST(ScaleTime, Sigma0HasItsClosedFormOnFmOt) {
  const double sigma_0 = 5;
  const auto transform = preconditioning(fm_ot_schedule(), sigma_0);
  for (const double r : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const ScaleTimePoint p = transform->at(r);
    const double s = r + sigma_0 * (1 - r);
    EXPECT_NEAR(p.s, s, 1e-12);
    EXPECT_NEAR(p.t, r / s, 1e-12);
    EXPECT_NEAR(p.s_dot, 1 - sigma_0, 1e-11);
    EXPECT_NEAR(p.t_dot, sigma_0 / (s * s), 1e-11);
  }
}

TEST(ScaleTime, TheEdmTransformHasItsClosedForm) {
  const SchedulePtr vp = vp_schedule();
  const auto transform = edm_transform(vp, 80);
  for (const double r : {0.05, 0.4, 0.9, 0.999}) {
    const ScaleTimePoint p = transform->at(r);
    EXPECT_NEAR(p.s, 1 / vp->alpha(p.t), 1e-9);
    EXPECT_NEAR(vp->snr(p.t) * 80 * (1 - r), 1, 1e-9);
  }
}

TEST(ScaleTime, TheExponentialTransformDividesByPsi) {
  const SchedulePtr vp = vp_schedule();
  const auto noise = exponential_transform(vp, Prediction::noise);
  const auto data = exponential_transform(vp, Prediction::data);
  for (const double r : {0.2, 0.7}) {
    EXPECT_NEAR(noise->at(r).s, 1 / vp->alpha(r), 1e-12);
    EXPECT_NEAR(data->at(r).s, 1 / vp->sigma(r), 1e-12);
    expect_derivatives(*noise, r);
    expect_derivatives(*data, r);
    // The linear part of the field vanishes: s'/s + psi'/psi = 0.
    const SchedulePoint p = vp->at(r);
    EXPECT_NEAR(noise->at(r).s_dot / noise->at(r).s + p.alpha_dot / p.alpha, 0, 1e-10);
    EXPECT_NEAR(data->at(r).s_dot / data->at(r).s + p.sigma_dot / p.sigma, 0, 1e-10);
  }
  EXPECT_THROW(exponential_transform(vp, Prediction::velocity), Error);
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
