#include "bespoke/solver/ns_solver.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/runge_kutta.h"
#include "plain_field.h"

namespace bespoke {
namespace {

using testing::Array;
using testing::PlainField;
using testing::relative_error;
using testing::run;

// n random (c, d) rules on a uniform grid.
std::vector<UpdateRule> random_rules(size_t n, uint32_t stream) {
  const auto numbers = uniform_numbers(11, stream, n * (n + 1));
  std::vector<UpdateRule> rules(n);
  size_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      rules[i].c.push_back(2 * numbers[next++] - 1);
      rules[i].d.push_back(2 * numbers[next++] - 1);
    }
  }
  return rules;
}

std::vector<double> uniform_times(size_t n) {
  std::vector<double> times(n + 1);
  for (size_t i = 0; i <= n; ++i) times[i] = static_cast<double>(i) / static_cast<double>(n);
  return times;
}

// The rules applied as they are written: all states and velocities kept.
Array run_rules(const std::vector<double>& times, const std::vector<UpdateRule>& rules,
                const PlainField& field, const Array& x0) {
  std::vector<Array> x = {x0}, u;
  for (size_t i = 0; i < rules.size(); ++i) {
    u.push_back(field.velocity(times[i], x[i]));
    Array next = 0 * x0;
    for (size_t j = 0; j <= i; ++j) next = next + rules[i].c[j] * x[j] + rules[i].d[j] * u[j];
    x.push_back(next);
  }
  return x.back();
}

PlainField small_field(const SchedulePtr& schedule) {
  return testing::mixture_field(testing::plain_mixture(), schedule);
}

// (s'/s) x + t' s u(t_r, x / s).
testing::Function transformed(const PlainField& field, const ScaleTimePtr& transform) {
  return [=](double r, const Array& x) {
    const ScaleTimePoint p = transform->at(r);
    return p.s_dot / p.s * x + p.t_dot * p.s * field.velocity(p.t, x / p.s);
  };
}

TEST(NsSolver, ReductionOfRandomRulesGivesTheSameSamples) {
  const PlainField field = small_field(fm_ot_schedule());
  const Array x0 = testing::normal_array(1, 4, 6);
  for (const size_t n : {1u, 2u, 5u, 9u}) {
    const auto rules = random_rules(n, static_cast<uint32_t>(n));
    const NsSolver solver = from_update_rules(uniform_times(n), rules);
    EXPECT_LT(relative_error(run(solver, field, x0), run_rules(solver.times, rules, field, x0)),
              1e-12)
        << n;
  }
}

TEST(NsSolver, ReductionHasTheErratumOfThePaperMended) {
  // x_2 = x_0 + 2 x_1 with x_1 = 3 x_0 + u_0: a_1 = 1 + 2 * 3, where the paper prints another sum.
  const NsSolver solver = from_update_rules({0, 0.5, 1}, {{{3}, {1}}, {{1, 2}, {0, 0}}});
  EXPECT_EQ(solver.a, (std::vector<double>{3, 7}));
  EXPECT_EQ(solver.b, (std::vector<std::vector<double>>{{1}, {2, 0}}));
}

TEST(NsSolver, FoldingATransformGivesTheSameSamples) {
  for (const auto& from : {fm_ot_schedule(), cosine_schedule(), vp_schedule()}) {
    for (const auto& to : {fm_ot_schedule(), cosine_schedule(), preconditioned_schedule(from, 5),
                           edm_schedule(80)}) {
      const auto transform = schedule_change(from, to);
      const PlainField field = small_field(from);
      // Random coefficients, so that nothing of the method helps.
      const NsSolver solver = from_update_rules(uniform_times(6), random_rules(6, 3));
      const NsSolver folded = fold(solver, *transform);
      const Array x0 = testing::normal_array(2, 4, 6);
      const double s0 = transform->at(0).s, s1 = transform->at(1).s;
      const Array expected = run(solver, transformed(field, transform), s0 * x0) / s1;
      EXPECT_LT(relative_error(run(folded, field, x0), expected), 1e-10)
          << from->name() << " to " << to->name();
    }
  }
}

TEST(NsSolver, EdmHeunIsHeunUnderTheEdmTransform) {
  // Heun on every step but the last, in r with sigma = 80 (1 - r), folded: the catalogue's entry.
  const SchedulePtr vp = vp_schedule();
  const NsSolver direct = make_solver("edm-heun", {9, vp, "karras:sigma_max=70"});
  const auto transform = schedule_change(vp, edm_schedule(80));
  std::vector<double> grid;
  for (int i = 0; i < 5; ++i) {
    const double root =
        std::pow(70, 1. / 7) + i / 4. * (std::pow(0.002, 1. / 7) - std::pow(70, 1. / 7));
    grid.push_back(1 - std::pow(root, 7) / 80);
  }
  NsSolver heun = runge_kutta(heun_tableau(), grid);
  // The last Euler step, from x at sigma_min to zero.
  std::vector<double> row = heun.b.back();
  row.push_back(1 - grid.back());
  heun.times.push_back(1);
  heun.a.push_back(1);
  heun.b.push_back(row);
  NsSolver folded = fold(heun, *transform);
  folded.start_scale = direct.start_scale;
  const PlainField field = small_field(vp);
  const Array x0 = testing::normal_array(2, 4, 6);
  EXPECT_LT(relative_error(run(folded, field, x0), run(direct, field, x0)), 1e-9);
}

TEST(NsSolver, CountsItsParameters) {
  EXPECT_EQ(make_solver("euler", {4, fm_ot_schedule(), ""}).parameter_count(), 19);
  EXPECT_EQ(make_solver("euler", {8, fm_ot_schedule(), ""}).parameter_count(), 53);
  EXPECT_EQ(make_solver("euler", {16, fm_ot_schedule(), ""}).parameter_count(), 169);
}

TEST(NsSolver, ChecksItself) {
  const NsSolver good = make_solver("rk4", {8, fm_ot_schedule(), ""});
  EXPECT_NO_THROW(good.validate());
  const auto broken = [&](auto change) {
    NsSolver solver = good;
    change(solver);
    EXPECT_THROW(solver.validate(), Error);
  };
  broken([](NsSolver& s) { s.times[2] = 0.9; });
  broken([](NsSolver& s) { s.times[8] = 1.5; });
  broken([](NsSolver& s) { s.times[0] = -0.1; });
  broken([](NsSolver& s) { s.times[3] = std::nan(""); });
  broken([](NsSolver& s) { s.times.pop_back(); });
  broken([](NsSolver& s) { s.a[1] = std::nan(""); });
  broken([](NsSolver& s) { s.b[5][2] = INFINITY; });
  broken([](NsSolver& s) { s.b[5].pop_back(); });
  broken([](NsSolver& s) { s.b.pop_back(); });
  broken([](NsSolver& s) { s = {}; });
}

}  // namespace
}  // namespace bespoke
