#include "bespoke/distill/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/solver/catalogue.h"

namespace bespoke {
namespace {

NsSolver named(const std::string& name, int nfe) {
  return make_solver(name, {nfe, fm_ot_schedule(), ""});
}

double largest_difference(const NsSolver& left, const NsSolver& right) {
  const auto a = coefficients_of(left), b = coefficients_of(right);
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Parameters off any special point.
std::vector<double> disturbed(std::vector<double> theta, double amount = 0.3) {
  const auto noise = uniform_numbers(3, 40, theta.size());
  for (size_t i = 0; i < theta.size(); ++i) theta[i] += amount * (noise[i] - 0.5);
  return theta;
}

void expect_jacobian(const Family& family, const std::vector<double>& theta) {
  const Matrix jacobian = family.jacobian(theta);
  ASSERT_EQ(jacobian.rows, coefficient_count(family.shape()));
  ASSERT_EQ(jacobian.columns, family.parameter_count());
  constexpr double kStep = 1e-6;
  for (size_t j = 0; j < theta.size(); ++j) {
    auto up = theta, down = theta;
    up[j] += kStep;
    down[j] -= kStep;
    const auto high = coefficients_of(family.solver(up));
    const auto low = coefficients_of(family.solver(down));
    for (size_t i = 0; i < high.size(); ++i) {
      EXPECT_NEAR(jacobian(i, j), (high[i] - low[i]) / (2 * kStep), 1e-7) << i << "," << j;
    }
  }
}

TEST(Family, CoefficientsRoundTripInTheDocumentedOrder) {
  const NsSolver solver = named("rk4", 8);
  const auto values = coefficients_of(solver);
  ASSERT_EQ(values.size(), coefficient_count(8));
  EXPECT_EQ(values[3], solver.times[3]);
  EXPECT_EQ(values[9 + 2], solver.a[2]);
  EXPECT_EQ(values[17 + 3 + 1], solver.b[2][1]);
  EXPECT_TRUE(solver_of(8, values) == solver);
}

// 5 steps of which three are guided, with numbers that tell all of them apart.
NsSolver guided_solver() {
  const SolverShape shape = {5, {0, 1, 3}};
  std::vector<double> values(coefficient_count(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + 0.01 * static_cast<double>(i);
  for (size_t i = 0; i <= 5; ++i) values[i] = 0.1 + 0.18 * static_cast<double>(i);
  return solver_of(shape, values);
}

TEST(Family, CoefficientsOfDifferencesComeLast) {
  const NsSolver solver = guided_solver();
  solver.validate();
  const SolverShape shape = solver.shape();
  const auto values = coefficients_of(solver);
  ASSERT_EQ(values.size(), coefficient_count(5) + 1 + 2 + 2 + 3 + 3);
  EXPECT_TRUE(solver_of(shape, values) == solver);
  EXPECT_EQ(values[start_scale_index(shape)], solver.start_scale);
  for (size_t i = 0; i < 5; ++i) {
    const auto row = step_coefficients(solver, i);
    ASSERT_EQ(row.size(), shape.columns(i));
    for (size_t column = 0; column < row.size(); ++column) {
      EXPECT_EQ(values[step_coefficient_index(shape, i, column)], row[column]) << i << column;
    }
  }
}

TEST(Family, BnsHoldsSolversThatGuideThemselves) {
  NsSolver solver = guided_solver();
  for (const bool unit_start_scale : {false, true}) {
    if (unit_start_scale) solver.start_scale = 1;
    const FamilyPtr family = bns_family(solver.shape(), {unit_start_scale, {}});
    const auto theta = family->parameters(solver);
    ASSERT_EQ(theta.size(), family->parameter_count());
    EXPECT_LT(largest_difference(family->solver(theta), solver), 1e-12);
    expect_jacobian(*family, disturbed(theta));
    const auto indices = family->last_step();
    const auto last = step_coefficients(solver, 4);
    ASSERT_EQ(indices.size(), last.size());
    for (size_t i = 0; i < last.size(); ++i) EXPECT_EQ(theta[indices[i]], last[i]) << i;
    EXPECT_THROW(family->parameters(named("euler", 5)), Error);
    EXPECT_THROW(bns_family(5)->parameters(solver), Error);
  }
}

TEST(Family, BnsHoldsEverySolverWithRisingTimes) {
  for (const char* name : {"euler", "midpoint", "ab2", "dpm++2m", "ddim"}) {
    NsSolver solver = named(name, 6);
    solver.times.front() = 0.03;
    solver.start_scale = 0.97;
    EXPECT_LT(largest_difference(bns_family(6)->solver(bns_family(6)->parameters(solver)), solver),
              1e-14)
        << name;
  }
}

TEST(Family, BnsNamesTheParametersOfTheLastStep) {
  const auto family = bns_family(3);
  auto theta = family->parameters(named("euler", 3));
  const auto indices = family->last_step();
  ASSERT_EQ(indices.size(), 4u);
  for (size_t i = 0; i < 4; ++i) theta[indices[i]] = 10 + static_cast<double>(i);
  const NsSolver solver = family->solver(theta);
  EXPECT_EQ(solver.a.back(), 10);
  EXPECT_EQ(solver.b.back(), (std::vector<double>{11, 12, 13}));
  EXPECT_TRUE(bst_family(ScaleTimeBase::rk1, 3)->last_step().empty());
}

TEST(Family, BnsPullsRepeatedTimesApartAndLeavesZero) {
  for (const char* name : {"heun", "rk4", "edm-heun"}) {
    const int nfe = name == std::string("edm-heun") ? 7 : 8;
    const NsSolver solver = named(name, nfe);
    const auto family = bns_family(nfe);
    const NsSolver start = family->solver(family->parameters(solver));
    start.validate();
    EXPECT_GT(start.times.front(), 0.08 / nfe);
    EXPECT_EQ(start.times.back(), 1);
    EXPECT_EQ(start.a, solver.a);
    EXPECT_EQ(start.b, solver.b);
    for (int i = 0; i < nfe; ++i) {
      EXPECT_GT(start.times[i + 1] - start.times[i], 0.0085 / nfe) << name;
      EXPECT_NEAR(start.times[i], solver.times[i], 0.02) << name;
    }
  }
}

TEST(Family, BnsJacobianMatchesDifferences) {
  const auto family = bns_family(4);
  expect_jacobian(*family, disturbed(family->parameters(named("midpoint", 4))));
}

TEST(Family, BstJacobianMatchesDifferences) {
  for (const auto base : {ScaleTimeBase::rk1, ScaleTimeBase::rk2}) {
    const auto family = bst_family(base, 4);
    const char* start = base == ScaleTimeBase::rk1 ? "euler" : "midpoint";
    expect_jacobian(*family, disturbed(family->parameters(named(start, 4))));
  }
}

TEST(Family, BstHoldsOneStepSolversAndTheirPreconditioning) {
  const SchedulePtr fm = fm_ot_schedule();
  const auto pre = schedule_change(fm, preconditioned_schedule(fm, 3));
  const auto rk1 = bst_family(ScaleTimeBase::rk1, 5);
  const auto rk2 = bst_family(ScaleTimeBase::rk2, 6);
  for (const NsSolver& solver : {named("euler", 5), fold(named("euler", 5), *pre)}) {
    EXPECT_LT(largest_difference(rk1->solver(rk1->parameters(solver)), solver), 1e-13);
  }
  for (const NsSolver& solver :
       {named("midpoint", 6), named("ralston", 6), fold(named("midpoint", 6), *pre)}) {
    EXPECT_LT(largest_difference(rk2->solver(rk2->parameters(solver)), solver), 1e-13);
  }
}

TEST(Family, BstParametersRoundTripThroughAnySolverOfTheFamily) {
  for (const auto base : {ScaleTimeBase::rk1, ScaleTimeBase::rk2}) {
    const auto family = bst_family(base, 6);
    const NsSolver solver = family->solver(
        disturbed(family->parameters(named(base == ScaleTimeBase::rk1 ? "euler" : "midpoint", 6))));
    EXPECT_LT(largest_difference(family->solver(family->parameters(solver)), solver), 1e-12);
  }
}

TEST(Family, HistoryHoldsMultistepMethods) {
  for (const auto& [name, history] :
       {std::pair{"euler", 1}, {"ab2", 2}, {"midpoint", 2}, {"ab3", 3}}) {
    NsSolver solver = named(name, 6);
    solver.times.front() = 0.03;
    solver.start_scale = 0.98;
    for (const int kept : {history, 6}) {
      const auto family = history_family(kept, 6);
      EXPECT_LT(largest_difference(family->solver(family->parameters(solver)), solver), 1e-12)
          << name << " in " << family->name();
    }
    if (history == 1) continue;
    EXPECT_THROW(history_family(history - 1, 6)->parameters(solver), Error) << name;
  }
}

TEST(Family, HistoryOfAllStepsHoldsEverySolver) {
  NsSolver solver =
      bns_family(5)->solver(disturbed(bns_family(5)->parameters(named("euler", 5)), 1));
  solver.times.front() = 0.03;
  const auto all = history_family(5, 5);
  EXPECT_EQ(all->parameter_count(), bns_family(5)->parameter_count());
  EXPECT_LT(largest_difference(all->solver(all->parameters(solver)), solver), 1e-12);
  EXPECT_THROW(history_family(4, 5)->parameters(solver), Error);
}

TEST(Family, HistoryJacobianMatchesDifferences) {
  for (const bool unit_start_scale : {false, true}) {
    const auto family = history_family(2, 4, {unit_start_scale, {}});
    const auto theta = family->parameters(named("midpoint", 4));
    ASSERT_EQ(theta.size(), family->parameter_count());
    expect_jacobian(*family, disturbed(theta));
    if (unit_start_scale) {
      EXPECT_EQ(family->solver(disturbed(theta)).start_scale, 1);
    }
  }
}

TEST(Family, TimesAreAllThatIsFreeOfAMethod) {
  const auto family = times_family("euler", 4, fm_ot_schedule());
  EXPECT_EQ(family->parameter_count(), 5u);
  NsSolver start = named("ab2", 4);
  start.times.front() = 0.1;
  const auto theta = disturbed(family->parameters(start));
  const NsSolver solver = family->solver(theta);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(solver.b[i][i], solver.times[i + 1] - solver.times[i], 1e-14);
  }
  // Times follow from logits as in any family, and Euler's coefficients are their differences.
  const Matrix jacobian = family->jacobian(theta);
  const Matrix known = bns_family(4)->jacobian(bns_family(4)->parameters(solver));
  for (size_t j = 0; j < 5; ++j) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(jacobian(i, j), known(i, j), 1e-8) << i << "," << j;
      const size_t column = i + 1, index = step_coefficient_index(4, i, column);
      const double next = i == 3 ? 0 : jacobian(i + 1, j);
      EXPECT_NEAR(jacobian(index, j), next - jacobian(i, j), 1e-8) << i << "," << j;
    }
  }
}

TEST(Family, TimesOfStepsOfSeveralEvaluations) {
  const auto family = times_family("midpoint", 6, fm_ot_schedule());
  EXPECT_EQ(family->parameter_count(), 4u);
  NsSolver solver = named("midpoint", 6);
  solver.times.front() = 0.03;
  const NsSolver same = family->solver(family->parameters(solver));
  EXPECT_NEAR(same.times[2], solver.times[2], 1e-12);
  EXPECT_NEAR(same.times[3], (solver.times[2] + solver.times[4]) / 2, 1e-12);
  expect_jacobian(*family, disturbed(family->parameters(solver)));
  EXPECT_THROW(times_family("midpoint", 5, fm_ot_schedule()), Error);
}

TEST(Family, RefusesWhatItCannotHold) {
  EXPECT_THROW(history_family(0, 6), Error);
  EXPECT_THROW(history_family(2, 6, {false, parse_time_rounding("integer")}), Error);
  EXPECT_THROW(bst_family(ScaleTimeBase::rk2, 5), Error);
  EXPECT_THROW(bst_family(ScaleTimeBase::rk1, 6)->parameters(named("ab2", 6)), Error);
  EXPECT_THROW(bst_family(ScaleTimeBase::rk2, 8)->parameters(named("rk4", 8)), Error);
  EXPECT_THROW(bns_family(6)->parameters(named("euler", 5)), Error);
}

}  // namespace
}  // namespace bespoke
