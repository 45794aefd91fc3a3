// Files of the forms that other tools write, made by hand, against what those tools compute with
// them: each rule is run on a nonlinear field beside the imported solver.

#include "bespoke/solver/learned_solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/imported_solver.h"
#include "refusal.h"

namespace bespoke {
namespace {

using nlohmann::json;

// A network that predicts noise, on one number.
double noise_net(double x, double t) { return std::tanh(0.9 * x) + 0.3 * t; }

double velocity_net(double x, double t) { return std::sin(x) + t; }

// A solver on the velocity of the noise network.
double run_on_noise(const NsSolver& solver, const Schedule& schedule, double x0) {
  std::vector<double> velocities;
  double x = solver.start_scale * x0;
  const double start = x;
  for (int i = 0; i < solver.nfe(); ++i) {
    const double t = solver.times[static_cast<size_t>(i)];
    const auto u = velocity_from(Prediction::noise, schedule.at(t));
    velocities.push_back(u.state * x + u.output * noise_net(x, t));
    x = solver.a[static_cast<size_t>(i)] * start;
    for (size_t j = 0; j < velocities.size(); ++j) {
      x += solver.b[static_cast<size_t>(i)][j] * velocities[j];
    }
  }
  return x;
}

double run_on_velocity(const NsSolver& solver, double x0) {
  std::vector<double> velocities;
  double x = solver.start_scale * x0;
  const double start = x;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    velocities.push_back(velocity_net(x, solver.times[i]));
    x = solver.a[i] * start;
    for (size_t j = 0; j <= i; ++j) x += solver.b[i][j] * velocities[j];
  }
  return x;
}

LearnedSolverFacts facts_for(const std::string& schedule, const std::string& prediction) {
  LearnedSolverFacts facts;
  facts.schedule = schedule;
  facts.prediction = prediction;
  return facts;
}

NumberTable list_of(std::vector<double> values) {
  return {{static_cast<int64_t>(values.size())}, std::move(values)};
}

TEST(NamedTables, AreReadFromSourcesAndPrintedTensors) {
  const NamedTables tables = named_tables(
      "DATA = dict(\n    step2=dict(\n        timedeltas=[0.25, 0.75],\n"
      "        coeffs=[[ 0.0000,  0.0000],\n        [-1.2600e+00,  0.0000]]\n    ),\n)\n"
      "x[3] = f([1, 2])\n"
      "{'scales': tensor([1., 2.,\n        3.], device='cuda:0'), \"more\": [[1], [2, 3]]}\n"
      "mixed = [1, [2]]; empty = [[], 1]; deep = [[[[1]]]]\n"
      "OrderedDict([('theta', tensor([[1, 2, 3], [4, 5, 6]]))])");
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_EQ(tables[0].first, "timedeltas");
  EXPECT_EQ(tables[0].second.values, (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(tables[1].first, "coeffs");
  EXPECT_EQ(tables[1].second.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tables[1].second.values, (std::vector<double>{0, 0, -1.26, 0}));
  EXPECT_EQ(tables[2].first, "scales");
  EXPECT_EQ(tables[3].first, "theta") << "rows of different lengths are no table";
  EXPECT_EQ(tables[3].second.shape, (std::vector<int64_t>{2, 3}));
}

TEST(LearnedSolver, NeuralSolverWeighsVelocitiesOfFlows) {
  const std::string text =
      "step2=dict(timedeltas=[0.3, 0.7001], coeffs=[[0, 0], [-1.5, 0]]),\n"
      "step3=dict(timedeltas=[0.1, 0.4, 0.5], coeffs=[[0, 0, 0], [-1.2, 0, 0], [0.4, -2, 0]])";
  const SolverFile file = import_solvers(
      describe_learned_solver(named_tables(text), facts_for("fm-ot", "velocity"), "ns.py"),
      "ns.py");
  ASSERT_EQ(file.nfes(), (std::vector<int>{2, 3}));
  const double x0 = 0.7;
  const double v0 = velocity_net(x0, 0), x1 = x0 + 0.1 * v0;
  const double v1 = velocity_net(x1, 0.1), x2 = x1 + 0.4 * (-1.2 * v0 + 2.2 * v1);
  const double v2 = velocity_net(x2, 0.5), x3 = x2 + 0.5 * (0.4 * v0 - 2 * v1 + 2.6 * v2);
  EXPECT_NEAR(run_on_velocity(file.at(3), x0), x3, 1e-12);
  EXPECT_EQ(file.at(2).times.back(), 1) << "published with four digits";
}

TEST(LearnedSolver, NeuralSolverWeighsDataOfDiffusion) {
  const SchedulePtr schedule = vp_schedule();
  const SolverFile file = import_solvers(
      describe_learned_solver(
          {{"timedeltas", list_of({0.4, 0.5})}, {"solver_coeffs", {{2, 2}, {0, 0, -0.6, 0}}}},
          facts_for("vp", "noise"), "ns"),
      "ns");
  const double x0 = 0.7;
  const auto data = [&](double x, double t) {
    return (x - schedule->sigma(t) * noise_net(x, t)) / schedule->alpha(t);
  };
  const auto step = [&](double from, double to, double x, double d) {
    const double ratio = schedule->sigma(to) / schedule->sigma(from);
    return ratio * x + (schedule->alpha(to) - ratio * schedule->alpha(from)) * d;
  };
  const double d0 = data(x0, 0.001);
  const double x1 = step(0.001, 0.401, x0, d0), d1 = data(x1, 0.401);
  const double x2 = step(0.401, 0.901, x1, -0.6 * d0 + 1.6 * d1);
  EXPECT_NEAR(run_on_noise(file.at(), *schedule, x0), x2, 1e-9);
}

TEST(LearnedSolver, Ld3TellsTheNetworkOtherTimes) {
  const SchedulePtr schedule = vp_schedule();
  // Times of the solver, then of the network, 1 at the noise.
  LearnedSolverFacts facts = facts_for("vp", "noise");
  facts.method = "ddim";
  const NumberTable both = list_of({1, 0.6, 0.001, 0.97, 0.58, 0.02});
  const json description = describe_learned_solver({{"best_t_steps", both}}, facts, "best_v2.pt");
  EXPECT_EQ(describe_learned_solver({{"", both}}, facts, "t_steps.pt"), description);
  const SolverFile file = import_solvers(description, "best_v2.pt");
  const auto step = [&](double from, double to, double x, double noise) {
    const double ratio = schedule->alpha(to) / schedule->alpha(from);
    return ratio * x + (schedule->sigma(to) - ratio * schedule->sigma(from)) * noise;
  };
  const double x0 = 0.4;
  const double x1 = step(0, 0.4, x0, noise_net(x0, 1 - 0.97));
  const double x2 = step(0.4, 0.999, x1, noise_net(x1, 1 - 0.58));
  EXPECT_NEAR(run_on_noise(file.at(), *schedule, x0), x2, 1e-9);
}

TEST(NetworkTimes, ThatAreTheSolversOwnChangeNothing) {
  for (const SchedulePtr& schedule : {vp_schedule(), cosine_schedule(), edm_schedule(10)}) {
    const NsSolver solver = make_solver("dpm++2m", {4, schedule, "uniform-t:start=0.1,end=0.9"});
    const std::vector<double> times(solver.times.begin(), solver.times.end() - 1);
    for (const Term held : {Term::noise, Term::data, Term::v, Term::velocity, Term::slope}) {
      const NsSolver same = with_network_times(solver, times, held, StateSpace::sigma, *schedule);
      for (size_t i = 0; i < solver.a.size(); ++i) {
        EXPECT_NEAR(same.a[i], solver.a[i], 1e-9 * (1 + std::abs(solver.a[i])));
        for (size_t j = 0; j <= i; ++j) {
          EXPECT_NEAR(same.b[i][j], solver.b[i][j], 1e-9 * (1 + std::abs(solver.b[i][j])));
        }
      }
    }
  }
}

double logit(double p) { return std::log(p / (1 - p)); }

// Parameters of GAS whose times are 1 = noise, `middle` falling and `end`.
NamedTables gas_tables(const std::vector<double>& middle, double end,
                       const std::vector<double>& couples,
                       const std::vector<std::vector<double>>& added) {
  std::vector<double> logits;
  double rest = 1;
  for (auto t = middle.rbegin(); t != middle.rend(); ++t) {
    const double left = 1 - (*t - end) / (1 - end);
    logits.push_back(logit((left / rest - 1e-5) / (1 - 2e-5)));
    rest = left;
  }
  NamedTables tables = {{"ema/shadow_params/0", list_of(logits)},
                        {"ema/shadow_params/1", list_of(couples)}};
  for (const auto& list : added) {
    tables.emplace_back("ema/shadow_params/" + std::to_string(tables.size()), list_of(list));
  }
  tables.emplace_back("ema/shadow_params/" + std::to_string(tables.size()),
                      NumberTable{{2, 2}, {1, 2, 3, 4}});  // of a discriminator
  return tables;
}

TEST(LearnedSolver, GasAddsNothingToDpmSolverPlusPlus) {
  const std::vector<double> zeros(4, 0);
  const SolverFile file =
      import_solvers(describe_learned_solver(
                         gas_tables({0.8, 0.5, 0.2}, 1e-3, zeros, {zeros, zeros, zeros, zeros}),
                         facts_for("vp", "noise"), "gas.pt"),
                     "gas.pt");
  const NsSolver known = make_solver("dpm++2m", {4, vp_schedule(), "custom:0,0.2,0.5,0.8,0.999"});
  EXPECT_NEAR(run_on_noise(file.at(), *vp_schedule(), 0.4),
              run_on_noise(known, *vp_schedule(), 0.4), 1e-9);
}

TEST(LearnedSolver, GasShiftsAndAddsAtEveryOrder) {
  const SchedulePtr schedule = vp_schedule();
  const std::vector<double> middle = {0.85, 0.6, 0.4, 0.2}, couples = {0.01, -0.02, 0.01, 0, 0.02};
  std::vector<std::vector<double>> added;  // c1, a1, c2, a2, ...
  for (int k = 0; k < 8; ++k) {
    std::vector<double> list;
    for (int i = 0; i < 5; ++i) list.push_back(0.03 * std::sin(7. * k + i));
    added.push_back(list);
  }
  const SolverFile file =
      import_solvers(describe_learned_solver(gas_tables(middle, 1e-3, couples, added),
                                             facts_for("vp", "noise"), "gas.pt"),
                     "gas.pt");
  // As that tool computes it, with the newest of each list last.
  std::vector<double> times = {0, 0.15, 0.4, 0.6, 0.8, 0.999}, states, data;
  double x = 0.4;
  for (size_t i = 0; i < 5; ++i) {
    const double told = std::max(0., times[i] - couples[i]);
    states.push_back(x);
    data.push_back((x - schedule->sigma(times[i]) * noise_net(x, told)) /
                   schedule->alpha(times[i]));
    const auto lambda = [&](size_t k) { return schedule->lambda(times[k]); };
    const auto c = [&](size_t k) { return added[2 * (k - 1)][i]; };
    const auto a = [&](size_t k) { return added[2 * (k - 1) + 1][i]; };
    const double h = lambda(i + 1) - lambda(i), alpha = schedule->alpha(times[i + 1]);
    const double phi1 = std::expm1(-h), phi2 = phi1 / h + 1, phi3 = phi2 / h - 0.5;
    x = (schedule->sigma(times[i + 1]) / schedule->sigma(times[i]) + a(1)) * states[i] -
        (alpha * phi1 + c(1)) * data[i];
    if (i == 1) {
      x -= (0.5 * alpha * phi1 + c(2)) * (data[1] - data[0]) * h / (lambda(1) - lambda(0));
      x += a(2) * states[0];
    } else if (i >= 2) {
      const double r0 = (lambda(i) - lambda(i - 1)) / h, r1 = (lambda(i - 1) - lambda(i - 2)) / h;
      const double near = (data[i] - data[i - 1]) / r0, far = (data[i - 1] - data[i - 2]) / r1;
      x += (alpha * phi2 + c(2)) * (near + r0 / (r0 + r1) * (near - far));
      x -= (alpha * phi3 + c(3)) * (near - far) / (r0 + r1);
      x += a(2) * states[i - 1] + a(3) * states[i - 2];
      if (i >= 3) x += c(4) * data[i - 3] + a(4) * states[i - 3];
    }
  }
  EXPECT_NEAR(run_on_noise(file.at(), *schedule, 0.4), x, 1e-9);
}

TEST(LearnedSolver, DyWeightMovesTimeByTheSumOfItsWeights) {
  LearnedSolverFacts facts = facts_for("fm-ot", "velocity");
  facts.sigmas = {1, 0.5, 0};
  const NamedTables tables = {{"dyweight_weights_raw", {{2, 2}, {0.9, 0, -0.4, 1.5}}},
                              {"dyweight_t_scales", list_of({0.98, 1.05})}};
  const SolverFile file =
      import_solvers(describe_learned_solver(tables, facts, "final-step.pt"), "final-step.pt");
  const double x0 = 0.7;
  const auto slope = [](double x, double sigma) { return -velocity_net(x, 1 - sigma); };
  const double v0 = slope(x0, 0.98), x1 = x0 - 0.5 * 0.9 * v0, sigma = 1 - 0.9 * 0.5;
  const double x2 = x1 - sigma * (-0.4 * v0 + 1.5 * slope(x1, 1.05 * sigma));
  EXPECT_NEAR(run_on_velocity(file.at(), x0), x2, 1e-12);
}

TEST(LearnedSolver, Ld3LowersTheOrderOfMultistepMethodsOnData) {
  LearnedSolverFacts facts = facts_for("vp", "noise");
  facts.method = "unipc3-bh1";
  const NumberTable both = list_of({0.9, 0.7, 0.4, 0.2, 0.01, 0.9, 0.7, 0.4, 0.2, 0.01});
  const SolverFile file =
      import_solvers(describe_learned_solver({{"best_t_steps", both}}, facts, "v2.pt"), "v2.pt");
  const NsSolver known =
      make_solver("unipc3-bh1", {4, vp_schedule(), "custom:0.1,0.3,0.6,0.8,0.99", true});
  EXPECT_NEAR(run_on_noise(file.at(), *vp_schedule(), 0.4),
              run_on_noise(known, *vp_schedule(), 0.4), 1e-9);
}

// What EDM's networks answer at y, told sigma, on the VP path: D.
double denoised(double y, double sigma) {
  const SchedulePtr schedule = vp_schedule();
  const double t = schedule->time_at_lambda(-std::log(sigma));
  return y - sigma * noise_net(schedule->alpha(t) * y, t);
}

// x = alpha y after a solver, of which the last sigma is so much.
double last_y(const SolverFile& file, double noise, double sigma) {
  const SchedulePtr schedule = vp_schedule();
  const double t = sigma > 0 ? schedule->time_at_lambda(-std::log(sigma)) : 1;
  return run_on_noise(file.at(), *schedule, noise) / schedule->alpha(t);
}

// Where a method of the catalogue begins.
double first_y(double sigma, double noise) { return sigma * noise / vp_schedule()->sigma(0); }

TEST(LearnedSolver, Ld3OfSigmasGivesTheNetworkTheSameY) {
  LearnedSolverFacts facts = facts_for("vp", "noise");
  facts.method = "ddim";
  const NumberTable both = list_of({80, 2, 0.01, 70, 2.5, 0.01});
  const SolverFile file =
      import_solvers(describe_learned_solver({{"best_t_steps", both}}, facts, "v2.pt"), "v2.pt");
  const auto step = [&](double y, double from, double to, double told) {
    return y + (to - from) * (y - denoised(y, told)) / told;
  };
  const double y = step(first_y(80, 0.4), 80, 2, 70);
  EXPECT_NEAR(last_y(file, 0.4, 0.01), step(y, 2, 0.01, 2.5), 1e-8);
}

TEST(LearnedSolver, DyWeightOfSigmasMovesSigmaByTheSumOfItsWeights) {
  const double w[] = {0.9, 0, 0, -0.3, 1.2, 0, 0.1, -0.2, 0.95}, scales[] = {0.98, 1.1, 0.9};
  for (const size_t without_network : {0u, 1u}) {
    LearnedSolverFacts facts = facts_for("vp", "noise");
    facts.sigmas = {40, 5, 1, 0.002};
    const NamedTables tables = {{"hybrid_weights", {{3, 3}, {w, w + 9}}},
                                {"t_scale", list_of({scales + without_network, scales + 3})}};
    const SolverFile file =
        import_solvers(describe_learned_solver(tables, facts, "plain.pt"), "plain.pt");
    EXPECT_EQ(file.at().nfe(), without_network == 0 ? 3 : 2);
    double y = 40 * 0.4, sigma = 40;
    std::vector<double> slopes;
    for (size_t i = 0; i < 3; ++i) {
      const bool free_slope = i < without_network;
      slopes.push_back(free_slope ? y / std::sqrt(1 + sigma * sigma)
                                  : (y - denoised(y, scales[i] * sigma)) / sigma);
      const double step = facts.sigmas[i + 1] - sigma;
      for (size_t j = 0; j <= i; ++j) {
        y += step * w[3 * i + j] * slopes[j];
        sigma += step * w[3 * i + j];
      }
    }
    EXPECT_NEAR(last_y(file, 0.4, 0), y, 1e-8);
  }
}

TEST(LearnedSolver, GitsEndsWhereItsScheduleEnds) {
  LearnedSolverFacts facts = facts_for("vp", "noise");
  facts.method = "ipndm";
  const std::string printed =
      "Selected dp_list: [0, 2, 5]\nSelected time schedule:  [80.0, 2.5, 0.002]\n"
      "Selected time schedule:  [80.0, 5.0, 1.0, 0.002]\n";
  const SolverFile file =
      import_solvers(describe_learned_solver(named_tables(printed), facts, "log"), "log");
  ASSERT_EQ(file.nfes(), (std::vector<int>{2, 3}));
  const auto euler = [](double y, double from, double to) {
    return (y - denoised(y, from)) / from * (to - from);
  };
  const double y0 = first_y(80, 0.4), first = euler(y0, 80, 2.5), y1 = y0 + first;
  const double second = euler(y1, 2.5, 0.002);
  const double y2 = y1 + 1.5 * second - 0.5 * first / (2.5 - 80) * (0.002 - 2.5);
  const double x2 = run_on_noise(file.at(2), *vp_schedule(), 0.4);
  const double t2 = vp_schedule()->time_at_lambda(-std::log(0.002));
  EXPECT_NEAR(x2, vp_schedule()->alpha(t2) * y2, 1e-8);
}

TEST(LearnedSolver, SaysWhatIsMissing) {
  const auto refused = [](const NamedTables& tables, const std::string& expected) {
    const std::string message = testing::refusal(
        [&] { describe_learned_solver(tables, facts_for("vp", "noise"), "theirs.pt"); });
    EXPECT_EQ(message.rfind("theirs.pt", 0), 0u) << expected << "\n" << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  refused({}, "holds no solver that is known");
  refused({{"timedeltas", list_of({1})}}, "without coeffs");
  refused({{"timedeltas", list_of({1})}, {"coeffs", list_of({1, 2})}}, "as many rows");
  refused({{"best_t_steps", list_of({1, 0, 1, 0})}}, "--method");
  refused({{"best_t_steps", list_of({1, 0, 1})}}, "two lists");
  refused({{"ema/shadow_params/0", list_of({1})}}, "are not GAS'");
  refused({{"dyweight_weights_raw", list_of({1})}}, "dyweight_t_scales");
  refused({{"hybrid_weights", list_of({1, 0, 1})}}, "n or n - 1");
  refused({{"hybrid_weights", {{1, 1}, {1}}}, {"t_scale", list_of({1})}}, "give its 2 sigmas");
  refused({{"schedule", list_of({80, 1})}}, "--method");
  refused({{"dyweight_weights_raw", {{1, 1}, {1}}}, {"dyweight_t_scales", list_of({1})}},
          "give its 2 sigmas");
}

}  // namespace
}  // namespace bespoke
