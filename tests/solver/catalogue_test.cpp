#include "bespoke/solver/catalogue.h"

#include <gtest/gtest.h>

#include <set>

#include "bespoke/base/error.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/multistep.h"
#include "plain_field.h"

namespace bespoke {
namespace {

std::string message_of(const std::string& name, const SolverRequest& request) {
  try {
    make_solver(name, request);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "no error";
}

TEST(Catalogue, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const auto& entry : catalogue()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(&find_solver(entry.name), &entry);
  }
  EXPECT_THROW(find_solver("midpont"), Error);
}

TEST(Catalogue, SpendsExactlyTheEvaluationsAskedFor) {
  for (const auto& entry : catalogue()) {
    for (int nfe = 1; nfe <= 13; ++nfe) {
      if (entry.steps(nfe) == 0) continue;
      EXPECT_EQ(make_solver(entry, {nfe, vp_schedule(), ""}).nfe(), nfe) << entry.name;
    }
  }
}

TEST(Catalogue, NamesTheNearestItCanSpend) {
  const SchedulePtr fm = fm_ot_schedule();
  EXPECT_EQ(message_of("heun", {7, fm, ""}),
            "heun cannot spend exactly 7 evaluations; the nearest it can is 6 or 8");
  EXPECT_EQ(message_of("edm-heun", {8, fm, ""}),
            "edm-heun cannot spend exactly 8 evaluations; the nearest it can is 7 or 9");
  EXPECT_EQ(message_of("rk4", {1, fm, ""}),
            "rk4 cannot spend exactly 1 evaluations; the nearest it can is 4");
  EXPECT_NE(message_of("euler", {0, fm, ""}), "no error");
  EXPECT_NE(message_of("euler", {8, fm, "", true}), "no error");
}

// A name that builds this grid, for any number of steps.
std::string buildable(const GridEntry& grid, int steps) {
  if (grid.name != "custom") return grid.name;
  std::string times = "custom:0";
  for (int i = 1; i <= steps; ++i) times += fmt::format(",{}", static_cast<double>(i) / steps);
  return times;
}

TEST(Catalogue, EveryEntryWorksOnEveryScheduleAndGrid) {
  for (const auto& schedule_entry : schedule_registry()) {
    const SchedulePtr schedule = make_schedule(schedule_entry.name);
    const auto field =
        testing::mixture_field(testing::plain_mixture(), schedule, Prediction::noise);
    const auto x0 = testing::starting_noise(*schedule, 2, 6);
    for (const auto& entry : catalogue()) {
      int nfe = 12;
      while (entry.steps(nfe) == 0) ++nfe;
      for (const auto& grid_entry : grid_registry()) {
        if (grid_entry.kind != GridKind::rule && grid_entry.name != "custom") continue;
        const std::string grid = buildable(grid_entry, entry.steps(nfe));
        const NsSolver solver = make_solver(entry, {nfe, schedule, grid});
        EXPECT_TRUE(testing::all_finite(testing::run(solver, field, x0)))
            << entry.name << " on " << schedule->name() << " " << grid;
      }
    }
  }
}

TEST(Catalogue, RunsInTheCoordinatesOfAnotherSchedule) {
  // DDIM is the same method in any coordinates, given the same times.
  const SchedulePtr fm = fm_ot_schedule(), cosine = cosine_schedule();
  const NsSolver via = make_solver_via(find_solver("ddim"), {5, fm, ""}, cosine);
  std::string grid = "custom:0";
  for (int i = 1; i <= 5; ++i) {
    grid += fmt::format(",{}", i == 5 ? 1.0 : fm->time_at_lambda(cosine->lambda(i / 5.)));
  }
  const NsSolver direct = make_solver("ddim", {5, fm, grid});
  const auto field = testing::mixture_field(testing::plain_mixture(), fm);
  const auto x0 = testing::normal_array(1, 3, 6);
  EXPECT_LT(testing::relative_error(testing::run(via, field, x0), testing::run(direct, field, x0)),
            1e-12);
}

TEST(Catalogue, ConvergesInTheCoordinatesOfAnySchedule) {
  // Wide components and many steps: what is left is the error of the coordinates themselves.
  const auto mixture = testing::plain_mixture({4, 3, 0, 0.6, 0.4, 0.8});
  for (const auto& name : {"fm-ot", "cosine", "vp", "ddpm-scaled-linear"}) {
    const SchedulePtr schedule = make_schedule(name);
    const auto field = testing::mixture_field(mixture, schedule, Prediction::noise);
    const auto x0 = testing::starting_noise(*schedule, 4, mixture.dimension);
    const auto truth = testing::exact_flow(mixture, *schedule, x0, 0, 1);
    for (const auto& via : {fm_ot_schedule(), cosine_schedule(), vp_schedule(),
                            preconditioned_schedule(schedule, 3)}) {
      for (const auto& method : {"midpoint", "heun"}) {
        const NsSolver solver = make_solver_via(find_solver(method), {512, schedule, ""}, via);
        const auto x = testing::run(solver, field, x0);
        const double error = testing::relative_error(x, truth);
        // A path that starts with some signal and one that starts with none differ at the start by
        // what x_0 does not say of the data; the rest is discretisation.
        EXPECT_LT(error, 2 * solver.times[0] + 4e-3)
            << method << " for " << name << " via " << via->name();
      }
    }
  }
}

// In other coordinates too a solver ends where the model's path does.
TEST(Catalogue, OtherCoordinatesEndWithThePath) {
  const auto mixture = testing::plain_mixture({4, 3, 0, 0.6, 0.4, 0.8});
  for (const auto& name : {"ve:sigma_min=0.3", "vp:end=0.8", "fm-ot:end=0.8"}) {
    const SchedulePtr schedule = make_schedule(name);
    const auto field = testing::mixture_field(mixture, schedule, Prediction::noise);
    const auto x0 = testing::starting_noise(*schedule, 4, mixture.dimension);
    const auto truth = testing::exact_flow(mixture, *schedule, x0, 0, 1);
    for (const auto& via : {fm_ot_schedule(), cosine_schedule()}) {
      const NsSolver solver = make_solver_via(find_solver("midpoint"), {256, schedule, ""}, via);
      EXPECT_NEAR(solver.times.back(), 1, 1e-12);
      EXPECT_LT(testing::relative_error(testing::run(solver, field, x0), truth),
                2 * solver.times[0] + 4e-3)
          << name << " via " << via->name();
    }
  }
}

// Baselines are as good as those who propose them make them.
TEST(Catalogue, RunsOnTheGridOfItsUsers) {
  struct Case {
    const char *solver, *schedule, *grid;
  };
  for (const Case& one : std::vector<Case>{{"euler", "vp", "uniform-t"},
                                           {"ab2", "edm", "uniform-t"},
                                           {"dpm++2m", "vp", "uniform-lambda"},
                                           {"dpm2s", "ddpm-scaled-linear", "uniform-lambda"},
                                           {"unipc3-bh2", "cosine", "uniform-lambda"},
                                           {"exp-ab3-data", "vp", "uniform-lambda"},
                                           {"deis-t-ab2", "vp", "quadratic"},
                                           {"deis-rho-ab3", "ddpm-linear", "quadratic"},
                                           {"ddim", "vp", "uniform-t"},
                                           {"ipndm", "cosine", "uniform-t"},
                                           {"dpm++2m", "edm", "karras"},
                                           {"ddim", "ve", "karras"},
                                           {"dpm++2m", "fm-ot", "uniform-t"},
                                           {"unipc2-bh2", "fm-ot", "uniform-t"},
                                           {"edm-heun", "fm-ot", "karras"}}) {
    const SchedulePtr schedule = make_schedule(one.schedule);
    const int nfe = std::string(one.solver) == "edm-heun" ? 7 : 8;
    EXPECT_EQ(make_solver(one.solver, {nfe, schedule, ""}).times,
              make_solver(one.solver, {nfe, schedule, one.grid}).times)
        << one.solver << " on " << one.schedule;
  }
  // In the coordinates of another path, on the grid of that one.
  const auto through = [](const std::string& grid) {
    return make_solver_via(find_solver("dpm++2m"), {8, vp_schedule(), grid}, fm_ot_schedule());
  };
  EXPECT_EQ(through("").times, through("uniform-t").times);
}

TEST(Catalogue, AnyTableauAndAnyRuleMakeAnEntry) {
  const SchedulePtr fm = fm_ot_schedule();
  // Heun's third-order method, and Adams-Bashforth 2 as a stationary rule.
  const ButcherTableau heun3 = {{{}, {1. / 3}, {0, 2. / 3}}, {0.25, 0, 0.75}, {0, 1. / 3, 2. / 3}};
  EXPECT_EQ(make_solver(runge_kutta_entry("mine", "", 3, heun3), {6, fm, ""}).nfe(), 6);
  const MultistepRule ab2 = {{0, 1}, {-0.5, 1.5}};
  const NsSolver mine = make_solver(multistep_entry("mine", "", 2, ab2), {6, fm, ""});
  const NsSolver built_in = make_solver("ab2", {6, fm, ""});
  for (size_t i = 0; i < 6; ++i) {
    for (size_t j = 0; j <= i; ++j) EXPECT_NEAR(mine.b[i][j], built_in.b[i][j], 1e-14);
  }
}

TEST(Catalogue, RefusesInconsistentTableausAndRules) {
  EXPECT_THROW((ButcherTableau{{{}, {0.5}}, {0, 0.9}, {0, 0.5}}).validate(), Error);
  EXPECT_THROW((ButcherTableau{{{}, {0.5}}, {0, 1}, {0, 0.6}}).validate(), Error);
  EXPECT_THROW((ButcherTableau{{{}, {1}, {0.25, 0.25}}, {0, 0, 1}, {0, 1, 0.5}}).validate(), Error);
  EXPECT_THROW((ButcherTableau{{{}}, {1, 0}, {0}}).validate(), Error);
  EXPECT_THROW((MultistepRule{{0.5, 0.4}, {0, 1}}).validate(), Error);
  EXPECT_THROW((MultistepRule{{0, 1}, {0, 0.5}}).validate(), Error);
  EXPECT_NO_THROW((MultistepRule{{1, 0}, {0, 2}}).validate());  // leapfrog
}

}  // namespace
}  // namespace bespoke
