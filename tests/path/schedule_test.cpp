#include "bespoke/path/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every schedule of the registry passes the same tests; a new row is tested by being there.
class EverySchedule : public ::testing::TestWithParam<std::string> {
 protected:
  SchedulePtr schedule_ = make_schedule(GetParam());
};

TEST_P(EverySchedule, RunsFromNoiseToData) {
  EXPECT_EQ(schedule_->alpha(1), 1);
  if (GetParam() == "ve") {
    EXPECT_EQ(schedule_->sigma(1), 0.01);  // a path that ends before the data
  } else {
    EXPECT_EQ(schedule_->sigma(1), 0);
    EXPECT_EQ(schedule_->lambda(1), kInfinity);
  }
  EXPECT_LT(schedule_->snr(0), 0.11);
  double previous = -kInfinity;
  for (int i = 0; i <= 1000; ++i) {
    const double lambda = schedule_->lambda(i / 1000.);
    EXPECT_GE(lambda, previous) << i;
    EXPECT_TRUE(i == 0 || lambda > previous) << i;
    previous = lambda;
  }
}

TEST_P(EverySchedule, DerivativesMatchFiniteDifferences) {
  // Inside one interval of the discrete schedules, whose log alpha is piecewise linear.
  for (const double t : {0.00325, 0.10325, 0.35025, 0.50075, 0.77725, 0.93675}) {
    const double h = 1e-6;
    const SchedulePoint p = schedule_->at(t), up = schedule_->at(t + h),
                        down = schedule_->at(t - h);
    const double scale = std::max(1.0, schedule_->sigma(0));
    EXPECT_NEAR(p.alpha_dot, (up.alpha - down.alpha) / (2 * h), 1e-7 * scale);
    EXPECT_NEAR(p.sigma_dot, (up.sigma - down.sigma) / (2 * h), 1e-7 * scale);
    EXPECT_NEAR(p.variance_rate, p.sigma * p.sigma_dot, 1e-12 * scale * scale);
    const BasicPoint<Jet> jet = schedule_->jet_at(t);
    EXPECT_NEAR(jet.alpha_dot.first, (up.alpha_dot - down.alpha_dot) / (2 * h),
                1e-6 * (scale + std::abs(jet.alpha_dot.first)));
    EXPECT_NEAR(jet.sigma_dot.first, (up.sigma_dot - down.sigma_dot) / (2 * h), 1e-5 * scale);
    EXPECT_NEAR(jet.variance_rate.first, (up.variance_rate - down.variance_rate) / (2 * h),
                1e-6 * scale * scale);
    EXPECT_GT(p.wronskian(), 0);
  }
}

TEST_P(EverySchedule, LambdaAndSnrInvert) {
  for (const double t : {0.001, 0.02, 0.3, 0.5, 0.7512, 0.97, 0.999}) {
    EXPECT_NEAR(schedule_->time_at_lambda(schedule_->lambda(t)), t, 1e-12);
    EXPECT_NEAR(schedule_->time_at_snr(schedule_->snr(t)), t, 1e-12);
  }
  EXPECT_EQ(schedule_->time_at_lambda(kInfinity), 1);
  EXPECT_EQ(schedule_->time_at_lambda(-kInfinity), 0);
  EXPECT_EQ(schedule_->time_at_snr(0), 0);
  EXPECT_NEAR(schedule_->time_at_lambda(schedule_->lambda(0)), 0, 1e-12);
}

TEST_P(EverySchedule, StaysFiniteAtBothEnds) {
  for (const double t : {0.0, 1.0}) {
    const SchedulePoint p = schedule_->at(t);
    EXPECT_TRUE(std::isfinite(p.alpha) && std::isfinite(p.sigma) && std::isfinite(p.alpha_dot) &&
                std::isfinite(p.variance_rate))
        << t;
  }
}

TEST_P(EverySchedule, DescribesItself) {
  const SchedulePtr copy = schedule_from_json(schedule_->describe());
  EXPECT_EQ(copy->describe(), schedule_->describe());
  for (const double t : {0.0, 0.123, 0.9}) EXPECT_EQ(copy->alpha(t), schedule_->alpha(t));
}

std::vector<std::string> registry_names() {
  std::vector<std::string> names;
  for (const auto& entry : schedule_registry()) names.push_back(entry.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySchedule, ::testing::ValuesIn(registry_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Schedule, ClosedForms) {
  const SchedulePtr fm = fm_ot_schedule(), cosine = cosine_schedule(), vp = vp_schedule();
  EXPECT_EQ(fm->alpha(0.3), 0.3);
  EXPECT_EQ(fm->sigma(0.3), 0.7);
  EXPECT_NEAR(cosine->alpha(1. / 3), 0.5, 1e-15);
  EXPECT_NEAR(cosine->sigma(1. / 3), std::sqrt(3) / 2, 1e-15);
  EXPECT_NEAR(vp->alpha(0), 0.00657,
              5e-6);  // not zero: the paper's VP path starts with some signal
  EXPECT_NEAR(vp->alpha(0.5), std::exp(-0.25 * 19.9 / 4 - 0.25 * 0.1), 1e-15);
  EXPECT_NEAR(std::pow(vp->alpha(0.2), 2) + std::pow(vp->sigma(0.2), 2), 1, 1e-15);
  const SchedulePtr edm = edm_schedule(80);
  EXPECT_EQ(edm->sigma(0.25), 60);
  EXPECT_EQ(edm->source_std(), 80);
  EXPECT_EQ(vp->source_std(), 1);
}

TEST(Schedule, VpKeepsItsDigitsNearTheData) {
  // sigma^2 = 1 - alpha^2 by subtraction would be wrong in the fourth digit here.
  const double s = 1e-10;
  const double t = 1 - s, actual = 1 - t;  // what is left of s after rounding
  EXPECT_NEAR(vp_schedule()->sigma(t) / std::sqrt(0.1 * actual), 1, 1e-8);
}

TEST(Schedule, DiscreteTablesMatchTheirBetas) {
  const SchedulePtr linear = make_schedule("ddpm-linear");
  double product = 1;
  for (int i = 0; i < 1000; ++i) {
    product *= 1 - (1e-4 + (0.02 - 1e-4) * i / 999);
    EXPECT_NEAR(std::pow(linear->alpha(1 - (i + 1) / 1000.), 2), product, 1e-12);
  }
  // Published values: the linear DDPM schedule ends at 4.0358e-5, Stable Diffusion's at 0.0047.
  EXPECT_NEAR(std::pow(linear->alpha(0), 2), 4.0358e-5, 5e-9);
  EXPECT_NEAR(std::pow(make_schedule("ddpm-scaled-linear")->alpha(0), 2), 0.0047, 5e-5);
  const double c0 = std::pow(std::cos(0.008 / 1.008 * std::acos(-1.0) / 2), 2);
  const double half = std::pow(std::cos(0.508 / 1.008 * std::acos(-1.0) / 2), 2) / c0;
  EXPECT_NEAR(std::pow(make_schedule("ddpm-cosine")->alpha(0.5), 2), half, 1e-12);
}

TEST(Schedule, AUsersTableInterpolatesLogAlpha) {
  const SchedulePtr table = table_schedule({0.9, 0.5, 0.1});
  EXPECT_NEAR(std::pow(table->alpha(1 - 2 / 3.), 2), 0.5, 1e-14);
  EXPECT_NEAR(std::pow(table->alpha(1 - 1.5 / 3.), 2), std::sqrt(0.9 * 0.5), 1e-14);
  EXPECT_NEAR(table->time_at_lambda(table->lambda(0.4)), 0.4, 1e-14);
  const auto copy = schedule_from_json(table->describe());
  EXPECT_EQ(copy->alpha(0.2), table->alpha(0.2));
}

TEST(Schedule, PreconditioningScalesTheNoiseAlone) {
  const SchedulePtr base = vp_schedule(), scaled = preconditioned_schedule(base, 5);
  EXPECT_EQ(scaled->alpha(0.4), base->alpha(0.4));
  EXPECT_EQ(scaled->sigma(0.4), 5 * base->sigma(0.4));
  EXPECT_NEAR(scaled->time_at_lambda(scaled->lambda(0.4)), 0.4, 1e-13);
  EXPECT_EQ(scaled->source_std(), 5);
}

// Those that are no rows of the registry, also one within the other.
TEST(Schedule, TablesAndPreconditionedSchedulesReadBackToo) {
  const SchedulePtr table = table_schedule({0.9, 0.5, 0.1});
  std::vector<SchedulePtr> schedules = {table};
  for (const auto& entry : schedule_registry()) {
    schedules.push_back(preconditioned_schedule(make_schedule(entry.name), 2.5));
  }
  schedules.push_back(preconditioned_schedule(vp_schedule(15, 0.2), 1. / 3));
  schedules.push_back(preconditioned_schedule(table, 3));
  schedules.push_back(preconditioned_schedule(preconditioned_schedule(cosine_schedule(), 2), 0.7));
  for (const auto& schedule : schedules) {
    const nlohmann::json description = schedule->describe();
    // Through text, as files hold it.
    const SchedulePtr copy = schedule_from_json(nlohmann::json::parse(description.dump()));
    EXPECT_EQ(copy->describe(), description);
    EXPECT_EQ(copy->source_std(), schedule->source_std());
    for (const double t : {0.0, 0.123, 0.9, 1.0}) {
      EXPECT_EQ(copy->alpha(t), schedule->alpha(t)) << description;
      EXPECT_EQ(copy->sigma(t), schedule->sigma(t)) << description;
    }
  }
}

TEST(Schedule, VarianceExplodingPathsMatchTheirFormulas) {
  const SchedulePtr ve = ve_schedule(0.01, 50);
  EXPECT_NEAR(ve->sigma(0), 50, 1e-12);
  EXPECT_NEAR(ve->sigma(0.5), std::sqrt(0.5), 1e-13);  // geometric mean
  EXPECT_EQ(ve->source_std(), 50);
  // The perturbation kernel of dx = 25^s dw at s = 1, from its integral.
  const SchedulePtr power = ve_power_schedule(25);
  EXPECT_NEAR(power->sigma(0), std::sqrt((25. * 25 - 1) / (2 * std::log(25.))), 1e-12);
  double integral = 0;
  for (int i = 0; i < 100000; ++i) integral += std::pow(25, 2 * 0.3 * (i + 0.5) / 1e5) * 0.3 / 1e5;
  EXPECT_NEAR(std::pow(power->sigma(0.7), 2), integral, 1e-8);
  EXPECT_NEAR(power->source_std(), power->sigma(0), 0);
  const SchedulePtr edm = edm_schedule(80, 0.002);
  EXPECT_NEAR(edm->sigma(1), 0.002, 1e-18);
  EXPECT_NEAR(edm->sigma(0.5), 40.001, 1e-12);
  EXPECT_NEAR(edm->time_at_lambda(edm->lambda(0.5)), 0.5, 1e-14);
  EXPECT_EQ(edm_schedule(80)->describe(), nlohmann::json({{"name", "edm"}, {"sigma_max", 80}}));
}

// Part of a path is the path between two of its times; t is stretched.
TEST(Schedule, APartIsThePathBetweenItsEnds) {
  for (const std::string name : {"vp", "cosine", "fm-ot", "ve-power", "ddpm-linear"}) {
    const SchedulePtr whole = make_schedule(name);
    const SchedulePtr part = make_schedule(name + ":start=0.1,end=0.9");
    EXPECT_EQ(part->last_time(), 1);
    for (const double t : {0.0, 0.35, 1.0}) {
      const double there = 0.1 + 0.8 * t;
      EXPECT_NEAR(part->alpha(t), whole->alpha(there), 1e-14) << name;
      EXPECT_NEAR(part->sigma(t), whole->sigma(there), 1e-13) << name;
      EXPECT_NEAR(part->trained_time(t).value, there, 1e-15) << name;
      EXPECT_NEAR(part->at(t).alpha_dot, 0.8 * whole->at(there).alpha_dot, 1e-12) << name;
      EXPECT_NEAR(part->time_at_lambda(part->lambda(t)), t, 1e-12) << name;
    }
    EXPECT_EQ(part->time_at_lambda(kInfinity), 1);
    EXPECT_EQ(part->time_at_lambda(-kInfinity), 0);
    EXPECT_EQ(schedule_from_json(part->describe())->describe(), part->describe());
    EXPECT_TRUE(is_part(*part));
    EXPECT_FALSE(is_part(*whole));
  }
  // Noise that grows without bound starts with that of the path, any other with unit noise.
  EXPECT_NEAR(make_schedule("ve-power:start=0.2")->source_std(), ve_power_schedule(25)->sigma(0.2),
              1e-14);
  EXPECT_EQ(make_schedule("vp:start=0.2")->source_std(), 1);
}

TEST(Schedule, AFinalDenoisingStepLeadsToTheData) {
  for (const std::string name : {"ve:denoise=1", "edm:sigma_min=0.02,denoise=1",
                                 "vp:end=0.99,denoise=1", "cosine:start=0.01,end=0.98,denoise=1"}) {
    const SchedulePtr path = make_schedule(name);
    const double last = path->last_time();
    EXPECT_LT(last, 1);
    EXPECT_EQ(path->alpha(1), 1) << name;
    EXPECT_EQ(path->sigma(1), 0) << name;
    EXPECT_EQ(path->lambda(1), kInfinity);
    double previous = -kInfinity;
    for (int i = 0; i <= 1000; ++i) {
      const double t = i / 1000., lambda = path->lambda(t);
      EXPECT_GT(lambda, previous) << name << " " << t;
      previous = lambda;
      EXPECT_NEAR(path->time_at_lambda(lambda), t, 1e-9) << name;
    }
    // There the network is told the same time from the end of its own path on.
    EXPECT_EQ(path->trained_time(1).value, path->trained_time(last).value);
    EXPECT_EQ(schedule_from_json(path->describe())->describe(), path->describe());
  }
}

TEST(Schedule, TablesOfBetasAndOfRules) {
  const SchedulePtr from_betas =
      schedule_from_json({{"name", "table"}, {"betas", {0.1, 0.2, 0.5}}});
  EXPECT_NEAR(std::pow(from_betas->alpha(0), 2), 0.9 * 0.8 * 0.5, 1e-15);
  EXPECT_EQ(make_schedule("ddpm-quadratic:steps=50,beta_end=0.5")->describe(),
            make_schedule("ddpm-scaled-linear:steps=50,beta_end=0.5")->describe());
  // A cosine with betas clipped at both ends: the first of them, untouched, is 1.57e-4, and the
  // last
  // 1. A public model of 300 levels ends at 2.7e-9.
  const SchedulePtr clipped =
      make_schedule("ddpm-cosine:steps=300,beta_min=0.0001,beta_max=0.9999");
  EXPECT_NEAR(
      std::pow(make_schedule("ddpm-cosine:steps=300,beta_min=0.001")->alpha(1 - 1 / 300.), 2),
      0.999, 1e-12);
  EXPECT_NEAR(std::pow(clipped->alpha(1 - 1 / 300.), 2), 1 - 1.565e-4, 1e-7);
  EXPECT_NEAR(std::pow(clipped->alpha(0), 2), 2.7e-9, 0.01e-9);
  EXPECT_FALSE(make_schedule("ddpm-cosine")->describe().contains("beta_min"));
}

TEST(Schedule, ZeroTerminalSnrMovesTheLastLevelToPureNoise) {
  const SchedulePtr plain = make_schedule("ddpm-scaled-linear");
  const SchedulePtr zero = make_schedule("ddpm-scaled-linear:zero_terminal_snr=1");
  EXPECT_EQ(zero->alpha(0), 0);
  EXPECT_EQ(zero->sigma(0), 1);
  EXPECT_EQ(zero->lambda(0), -kInfinity);
  const double first = plain->alpha(0.999), last = plain->alpha(0);
  EXPECT_NEAR(zero->alpha(0.999), first, 1e-14);
  // In between the root of the product is shifted and stretched.
  EXPECT_NEAR(zero->alpha(0.5), (plain->alpha(0.5) - last) * first / (first - last), 1e-14);
  double previous = -kInfinity;
  for (int i = 1; i <= 4000; ++i) {
    const double t = i / 4000., lambda = zero->lambda(t);
    EXPECT_GT(lambda, previous) << t;
    previous = lambda;
    EXPECT_NEAR(zero->time_at_lambda(lambda), t, 1e-9);
    EXPECT_GT(zero->at(t - 1e-5).wronskian(), 0) << t;
  }
  const SchedulePtr copy =
      schedule_from_json({{"name", "ddpm-scaled-linear"}, {"zero_terminal_snr", true}});
  EXPECT_EQ(copy->describe(), zero->describe());
  const SchedulePtr list = schedule_from_json(
      {{"name", "table"}, {"alphas_cumprod", {0.9, 0.5, 0.1}}, {"zero_terminal_snr", true}});
  EXPECT_EQ(list->alpha(0), 0);
  EXPECT_NEAR(std::pow(list->alpha(1 - 1 / 3.), 2), 0.9, 1e-15);
  EXPECT_EQ(schedule_from_json(list->describe())->describe(), list->describe());
}

TEST(Schedule, RefusesBrokenDescriptions) {
  const nlohmann::json good = preconditioned_schedule(vp_schedule(), 2)->describe();
  const auto broken = [&](auto change) {
    nlohmann::json description = good;
    change(description);
    EXPECT_THROW(schedule_from_json(description), Error) << description;
  };
  broken([](auto& d) { d.erase("base"); });
  broken([](auto& d) { d.erase("sigma_0"); });
  broken([](auto& d) { d["sigma_0"] = 0; });
  broken([](auto& d) { d["sigma_0"] = "2"; });
  broken([](auto& d) { d["base"] = "vp"; });
  broken([](auto& d) { d["base"]["name"] = "vq"; });
  broken([](auto& d) { d["sigma"] = 1; });
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_THROW(make_schedule("vq"), Error);
  EXPECT_THROW(make_schedule("vp:C=1"), Error);
  EXPECT_THROW(make_schedule("vp:B=0.05"), Error);
  EXPECT_THROW(make_schedule("edm:sigma_max=-1"), Error);
  EXPECT_THROW(make_schedule("fm-ot:x=1"), Error);
  EXPECT_THROW(make_schedule("ddpm-linear:steps=1.5"), Error);
  EXPECT_THROW(table_schedule({0.5}), Error);
  EXPECT_THROW(table_schedule({0.5, 0.6}), Error);
  EXPECT_THROW(table_schedule({0.5, std::nan("")}), Error);
  EXPECT_THROW(make_schedule("table:/no/such/file"), Error);
  EXPECT_THROW(make_schedule("edm:sigma_min=80"), Error);
  EXPECT_THROW(make_schedule("edm:sigma_min=-1"), Error);
  EXPECT_THROW(make_schedule("ve:sigma_min=0"), Error);
  EXPECT_THROW(make_schedule("ve-power:sigma=1"), Error);
  EXPECT_THROW(make_schedule("ddpm-cosine:beta_min=1"), Error);
  EXPECT_THROW(make_schedule("ddpm-linear:zero_terminal_snr=2"), Error);
  EXPECT_THROW(make_schedule("vp:start=1"), Error);
  EXPECT_THROW(make_schedule("vp:start=0.5,end=0.4"), Error);
  EXPECT_THROW(make_schedule("vp:denoise=1"), Error);  // it ends at the data
  EXPECT_THROW(table_schedule({0.5, 0, 0}), Error);
  EXPECT_THROW(schedule_from_json({{"name", "table"}}), Error);
  EXPECT_THROW(schedule_from_json(
                   {{"name", "table"}, {"betas", {0.1, 0.2}}, {"alphas_cumprod", {0.9, 0.5}}}),
               Error);
  EXPECT_THROW(schedule_from_json({{"name", "ve"}, {"denoise", 1}}), Error);
  EXPECT_THROW(schedule_from_json({{"name", "vp"}, {"Q", 1}}), Error);
  EXPECT_THROW(schedule_from_json("vp"), Error);
}

}  // namespace
}  // namespace bespoke
