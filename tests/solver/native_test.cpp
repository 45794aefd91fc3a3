#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "catalogue_names.h"
#include "native_dpm.h"
#include "native_exponential.h"
#include "native_generic.h"
#include "plain_field.h"

namespace bespoke {

using namespace detail;
namespace {

using native::BVariant;
using native::Form;
using native::Problem;
using native::Variable;
using testing::Array;

using NativeMethod = std::function<Array(const Problem&, const Array& x0)>;

NativeMethod generic(native::OneStepMethod method) {
  return [=](const Problem& p, const Array& x) { return native::runge_kutta(p, method, x); };
}
NativeMethod adams(size_t order) {
  return [=](const Problem& p, const Array& x) { return native::adams_bashforth(p, order, x); };
}
NativeMethod singlestep(int order, Form form) {
  return [=](const Problem& p, const Array& x) {
    return native::dpm_singlestep(p, native::singlestep_orders(order, p.nfe), form, x);
  };
}
NativeMethod singlestep_fixed(int order, Form form) {
  return [=](const Problem& p, const Array& x) {
    const std::vector<int> orders(static_cast<size_t>(p.nfe / order), order);
    return native::dpm_singlestep(p, orders, form, x);
  };
}
NativeMethod dpm_multistep(size_t order, Form form) {
  return [=](const Problem& p, const Array& x) { return native::dpm_multistep(p, order, form, x); };
}
NativeMethod unipc(size_t order, BVariant variant) {
  return [=](const Problem& p, const Array& x) { return native::unipc(p, order, variant, x); };
}
NativeMethod exponential_adams(size_t order, Form form, Variable variable) {
  return [=](const Problem& p, const Array& x) {
    return native::exponential_adams(p, order, form, variable, x);
  };
}
NativeMethod exponential(native::OneStepMethod method, Form form) {
  return [=](const Problem& p, const Array& x) {
    return native::exponential_runge_kutta(p, method, form, x);
  };
}

const std::map<std::string, NativeMethod>& native_methods() {
  static const std::map<std::string, NativeMethod> methods = {
      {"euler", generic(native::kEuler)},
      {"midpoint", generic(native::kMidpoint)},
      {"heun", generic(native::kHeun)},
      {"ralston", generic(native::kRalston)},
      {"rk3", generic(native::kRk3)},
      {"rk4", generic(native::kRk4)},
      {"ab2", adams(2)},
      {"ab3", adams(3)},
      {"ab4", adams(4)},
      {"ddim", native::ddim},
      {"dpm2s", singlestep(2, Form::noise)},
      {"dpm3s", singlestep(3, Form::noise)},
      {"dpm++2s", singlestep(2, Form::data)},
      {"dpm++3s", singlestep(3, Form::data)},
      {"dpm2s-fixed", singlestep_fixed(2, Form::noise)},
      {"dpm3s-fixed", singlestep_fixed(3, Form::noise)},
      {"dpm++2s-fixed", singlestep_fixed(2, Form::data)},
      {"dpm++3s-fixed", singlestep_fixed(3, Form::data)},
      {"dpm2m", dpm_multistep(2, Form::noise)},
      {"dpm3m", dpm_multistep(3, Form::noise)},
      {"dpm++2m", dpm_multistep(2, Form::data)},
      {"dpm++3m", dpm_multistep(3, Form::data)},
      {"deis-rho-ab1", exponential_adams(1, Form::noise, Variable::rho)},
      {"deis-rho-ab2", exponential_adams(2, Form::noise, Variable::rho)},
      {"deis-rho-ab3", exponential_adams(3, Form::noise, Variable::rho)},
      {"deis-t-ab1", exponential_adams(1, Form::noise, Variable::t)},
      {"deis-t-ab2", exponential_adams(2, Form::noise, Variable::t)},
      {"deis-t-ab3", exponential_adams(3, Form::noise, Variable::t)},
      {"unipc2-bh1", unipc(2, BVariant::bh1)},
      {"unipc2-bh2", unipc(2, BVariant::bh2)},
      {"unipc3-bh1", unipc(3, BVariant::bh1)},
      {"unipc3-bh2", unipc(3, BVariant::bh2)},
      {"ipndm", native::ipndm},
      {"exp-ab2-noise", exponential_adams(2, Form::noise, Variable::lambda)},
      {"exp-ab3-noise", exponential_adams(3, Form::noise, Variable::lambda)},
      {"exp-ab4-noise", exponential_adams(4, Form::noise, Variable::lambda)},
      {"exp-ab2-data", exponential_adams(2, Form::data, Variable::lambda)},
      {"exp-ab3-data", exponential_adams(3, Form::data, Variable::lambda)},
      {"exp-ab4-data", exponential_adams(4, Form::data, Variable::lambda)},
      {"exp-midpoint-noise", exponential(native::kMidpoint, Form::noise)},
      {"exp-heun-noise", exponential(native::kHeun, Form::noise)},
      {"exp-ralston-noise", exponential(native::kRalston, Form::noise)},
      {"exp-rk3-noise", exponential(native::kRk3, Form::noise)},
      {"exp-rk4-noise", exponential(native::kRk4, Form::noise)},
      {"exp-midpoint-data", exponential(native::kMidpoint, Form::data)},
      {"exp-heun-data", exponential(native::kHeun, Form::data)},
      {"exp-ralston-data", exponential(native::kRalston, Form::data)},
      {"exp-rk3-data", exponential(native::kRk3, Form::data)},
      {"exp-rk4-data", exponential(native::kRk4, Form::data)},
      {"edm-heun", native::edm_heun},
  };
  return methods;
}

constexpr double kTolerance = 1e-10;

class NativeTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Compares the catalogue's solver with the native method at every NFE the method can spend.
  void compare(const std::string& schedule_name, const std::string& grid, bool lower_order_final) {
    const auto method = native_methods().find(GetParam());
    if (method == native_methods().end()) {
      ADD_FAILURE() << GetParam() << " has no native implementation to be compared with";
      return;
    }
    const CatalogueEntry& entry = find_solver(GetParam());
    const SchedulePtr schedule = make_schedule(schedule_name);
    const testing::PlainMixture mixture = testing::plain_mixture();
    const testing::PlainField field = testing::mixture_field(mixture, schedule);
    const Array x0 = testing::starting_noise(*schedule, 4, mixture.dimension);
    int compared = 0;
    for (const int nfe : {1, 5, 6, 8, 9, 12}) {
      const int steps = entry.steps(nfe);
      if (steps == 0) continue;
      ++compared;
      SCOPED_TRACE(fmt::format("{} on {}, {} NFE, grid {}{}", entry.name, schedule_name, nfe, grid,
                               lower_order_final ? ", lower order at the end" : ""));
      const NsSolver solver = make_solver(entry, {nfe, schedule, grid, lower_order_final});
      EXPECT_EQ(solver.nfe(), nfe);
      const std::string& grid_text = grid.empty() ? entry.grid_for(*schedule) : grid;
      const Problem problem = {field, *schedule, make_grid(grid_text, steps, *schedule), nfe,
                               lower_order_final};
      const Array expected = method->second(problem, solver.start_scale * x0);
      EXPECT_LT(testing::relative_error(testing::run(solver, field, x0), expected), kTolerance);
    }
    EXPECT_GE(compared, 2) << entry.name << " can spend too few of these NFE to be tested";
  }
};

TEST_P(NativeTest, AgreesOnEveryScheduleAndGrid) {
  for (const char* schedule : {"fm-ot", "cosine", "vp", "ddpm-linear", "edm"}) {
    for (const char* grid : {"", "uniform-t", "uniform-lambda", "quadratic:start=0.05,end=0.93",
                             "uniform-lambda:start=0.02,end=0.98"}) {
      compare(schedule, grid, false);
    }
  }
}

TEST_P(NativeTest, LowersTheOrderAtTheEndOrRefusesTo) {
  const CatalogueEntry& entry = find_solver(GetParam());
  if (!entry.can_lower_order) {
    int nfe = 5;
    while (entry.steps(nfe) == 0) ++nfe;
    EXPECT_THROW(make_solver(entry, {nfe, vp_schedule(), "", true}), Error);
    return;
  }
  for (const char* schedule : {"fm-ot", "cosine", "vp"}) {
    for (const char* grid : {"uniform-t", "uniform-t:end=0.93", "uniform-lambda:end=0.98"}) {
      compare(schedule, grid, true);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, NativeTest, ::testing::ValuesIn(testing::catalogue_names()),
                         testing::catalogue_test_name);

constexpr int kLevels = 1000;

// The toy of a widely used scheduler library: noise prediction x i / (i + 1) at discrete index i.
testing::PlainField index_toy(const SchedulePtr& schedule) {
  const auto output = [](double t, const Array& x) {
    const double index = kLevels * (1 - t) - 1;
    return index / (index + 1) * x;
  };
  return {schedule, Prediction::noise, output};
}

double toy_mean(const std::string& solver_name, bool lower_order_final) {
  const SchedulePtr schedule = make_schedule("ddpm-linear");
  std::string grid = "custom:";
  for (const int index : {999, 899, 799, 699, 599, 500, 400, 300, 200, 100}) {
    grid += exact(1 - (index + 1.0) / kLevels) + ",";
  }
  grid += exact(1 - 1.0 / kLevels);
  const NsSolver solver = make_solver(solver_name, {10, schedule, grid, lower_order_final});
  Array x0;
  for (int i = 0; i < 768; ++i) x0.values.push_back(i / 768.);
  const Array x = testing::run(solver, index_toy(schedule), x0);
  double sum = 0;
  for (const double value : x.values) sum += std::abs(value);
  return sum / static_cast<double>(x.size());
}

// Compared to half a unit of the last published digit.
TEST(PublishedFigures, DpmSolverPlusPlus2M) {
  EXPECT_NEAR(toy_mean("dpm++2m", false), 0.3301, 5e-5);
}
TEST(PublishedFigures, DeisLogRho2) { EXPECT_NEAR(toy_mean("exp-ab2-noise", true), 0.23916, 5e-6); }
TEST(PublishedFigures, UniPc2Bh2) { EXPECT_NEAR(toy_mean("unipc2-bh2", true), 0.2464, 5e-5); }

}  // namespace
}  // namespace bespoke
