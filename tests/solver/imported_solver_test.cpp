#include "bespoke/solver/imported_solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/exported_text.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/lowering.h"
#include "plain_field.h"
#include "refusal.h"

namespace bespoke {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<double>>;

// The largest difference of two solvers' numbers, beside the size of the larger.
double distance(const NsSolver& left, const NsSolver& right) {
  if (left.nfe() != right.nfe()) return 1e9;
  double largest = std::abs(left.start_scale - right.start_scale);
  const auto compare = [&](double a, double b) {
    largest = std::max(largest, std::abs(a - b) / std::max(1.0, std::abs(b)));
  };
  for (size_t i = 0; i < left.a.size(); ++i) {
    compare(left.times[i + 1], right.times[i + 1]);
    compare(left.a[i], right.a[i]);
    for (size_t j = 0; j <= i; ++j) compare(left.b[i][j], right.b[i][j]);
  }
  return largest;
}

std::vector<SchedulePtr> paths() {
  return {fm_ot_schedule(), cosine_schedule(), vp_schedule(), edm_schedule(),
          make_schedule("ddpm-scaled-linear")};
}

constexpr char kGrid[] = "uniform-t:start=0.1,end=0.9";

TEST(ImportedSolver, DdimIsOneNoiseOrDataPredictionAStep) {
  for (const SchedulePtr& schedule : paths()) {
    for (const std::string grid : {kGrid, "lambda-range", "uniform-t"}) {
      const NsSolver ddim = make_solver("ddim", {5, schedule, grid});
      const Rows weights(5, {1});
      for (const Term term : {Term::noise, Term::data}) {
        EXPECT_LT(distance(from_weights(ddim.times, weights, term, *schedule), ddim), 1e-12)
            << schedule->name() << " " << grid << " " << static_cast<int>(term);
      }
    }
  }
}

// D = (1 + 1/2r) D_i - 1/2r D_(i-1), r the ratio of the last two steps in log-SNR.
Rows dpmpp_2m_weights(const std::vector<double>& times, const Schedule& schedule) {
  Rows weights = {{1}};
  for (size_t i = 1; i + 1 < times.size(); ++i) {
    const double h = schedule.lambda(times[i + 1]) - schedule.lambda(times[i]);
    const double before = schedule.lambda(times[i]) - schedule.lambda(times[i - 1]);
    const double half = h / (2 * before);
    weights.push_back({-half, 1 + half});
  }
  return weights;
}

TEST(ImportedSolver, DpmSolverPlusPlusIsWeightsOverDataPredictions) {
  for (const SchedulePtr& schedule : paths()) {
    const NsSolver expected = make_solver("dpm++2m", {6, schedule, kGrid});
    const Rows weights = dpmpp_2m_weights(expected.times, *schedule);
    EXPECT_LT(distance(from_weights(expected.times, weights, Term::data, *schedule), expected),
              1e-12)
        << schedule->name();
  }
}

// The same on x and D, both of this step and the last: (c, d) as a paper writes it.
TEST(ImportedSolver, TakesStepsOnStatesAndPredictions) {
  for (const SchedulePtr& schedule : paths()) {
    const NsSolver expected = make_solver("dpm++2m", {6, schedule, kGrid});
    const Rows weights = dpmpp_2m_weights(expected.times, *schedule);
    std::vector<UpdateRule> rules;
    for (size_t i = 0; i < 6; ++i) {
      const SchedulePoint from = schedule->at(expected.times[i]);
      const SchedulePoint to = schedule->at(expected.times[i + 1]);
      UpdateRule rule = {std::vector<double>(i + 1, 0), std::vector<double>(i + 1, 0)};
      rule.c[i] = to.sigma / from.sigma;
      for (size_t k = 0; k < weights[i].size(); ++k) {
        rule.d[i + 1 - weights[i].size() + k] =
            (to.alpha - from.alpha * to.sigma / from.sigma) * weights[i][k];
      }
      rules.push_back(rule);
    }
    EXPECT_LT(distance(from_steps(expected.times, rules, Term::data, StateSpace::path, *schedule),
                       expected),
              1e-12)
        << schedule->name();
  }
}

// Euler in sigma, as k-diffusion takes it: y + (sigma' - sigma) d.
TEST(ImportedSolver, TakesStepsInTheSpaceOfSigmas) {
  for (const SchedulePtr& schedule : paths()) {
    const std::string method = is_flow(*schedule) ? "euler" : "ddim";
    const NsSolver expected = make_solver(method, {4, schedule, kGrid});
    std::vector<UpdateRule> rules;
    for (size_t i = 0; i < 4; ++i) {
      UpdateRule rule = {std::vector<double>(i + 1, 0), std::vector<double>(i + 1, 0)};
      rule.c[i] = 1;
      rule.d[i] =
          tool_sigma(*schedule, expected.times[i + 1]) - tool_sigma(*schedule, expected.times[i]);
      rules.push_back(rule);
    }
    EXPECT_LT(distance(from_steps(expected.times, rules, Term::slope, StateSpace::sigma, *schedule),
                       expected),
              1e-12)
        << schedule->name();
    EXPECT_LT(
        distance(from_weights(expected.times, Rows(4, {1}), Term::slope, *schedule), expected),
        1e-12)
        << schedule->name();
  }
}

// What a solver becomes on a network's own outputs is the solver again.
TEST(ImportedSolver, UndoesLowering) {
  for (const SchedulePtr& schedule : paths()) {
    const NsSolver expected = make_solver("unipc3-bh2", {6, schedule, kGrid});
    for (const auto& name : prediction_names()) {
      const Prediction prediction = parse_prediction(name);
      const LoweredSolver lowered = lower(expected, prediction, *schedule, 1e-3);
      const json description = {{"schedule", schedule->describe()},
                                {"prediction", name},
                                {"times", lowered.times},
                                {"a", lowered.a},
                                {"b", lowered.b},
                                {"start_scale", lowered.start_scale}};
      const SolverFile file = import_solvers(description, "test");
      EXPECT_LT(distance(file.at(), expected), 1e-11) << schedule->name() << " " << name;
      EXPECT_EQ(file.field.prediction, prediction);
    }
  }
}

TEST(ImportedSolver, TimesAloneRunTheCataloguesMethod) {
  const SchedulePtr sd = make_schedule("ddpm-scaled-linear");
  const std::vector<double> sigmas = {14.6146412293, 3.5, 1.2, 0.3};
  for (const std::string method : {"ddim", "dpm++2m", "ipndm", "heun", "dpm++3s"}) {
    const SolverFile file = import_solvers({{"name", "mine"},
                                            {"schedule", "ddpm-scaled-linear"},
                                            {"sigmas", sigmas},
                                            {"method", method}},
                                           "test");
    const NsSolver found = file.at();
    const NsSolver expected =
        make_solver(method, {found.nfe(), sd, "sigmas:14.6146412293,3.5,1.2,0.3"});
    EXPECT_TRUE(found == expected) << method;
    EXPECT_EQ(find_solver(method).steps(found.nfe()), 4) << method;
  }
  const SolverFile file = import_solvers(
      {{"schedule", {{"name", "ddpm-linear"}}}, {"timesteps", {999, 499}}, {"method", "ddim"}},
      "test");
  EXPECT_TRUE(file.at() == make_solver("ddim", {2, make_schedule("ddpm-linear")}));
  EXPECT_EQ(file.provenance["made_by"], "import");
}

TEST(ImportedSolver, ReadsWhatTheExportToSigmasWrites) {
  for (const SchedulePtr& schedule : paths()) {
    SolverFile file = {"mine", {Prediction::noise, schedule, 1.5}, {}};
    for (const int nfe : {3, 6}) {
      file.put({make_solver("dpm++2m", {nfe, schedule, "lambda-range"})});
    }
    const SolverFile back = import_solvers(json::parse(sigmas_text(file)), "test");
    EXPECT_EQ(back.nfes(), file.nfes());
    EXPECT_EQ(back.field.guidance, file.field.guidance);
    EXPECT_EQ(back.field.schedule->describe(), schedule->describe());
    for (const int nfe : {3, 6}) {
      EXPECT_LT(distance(back.at(nfe), file.at(nfe)), 1e-9) << schedule->name();
    }
  }
}

void expect_import_refused(const std::function<void(json&)>& change, const std::string& expected) {
  json description = {
      {"schedule", "vp"}, {"times", {0.1, 0.5, 0.9}}, {"a", {1, 1}}, {"b", {{0.4}, {0.4, 0.4}}}};
  ASSERT_NO_THROW(import_solvers(description, "mine.json"));
  change(description);
  const std::string message = testing::refusal([&] { import_solvers(description, "mine.json"); });
  EXPECT_EQ(message.rfind("mine.json", 0), 0u) << expected << "\n" << message;
  EXPECT_NE(message.find(expected), std::string::npos) << message;
}

TEST(ImportedSolver, SaysWhatIsWrong) {
  const auto refused = expect_import_refused;
  refused([](json& d) { d = 3; }, "one JSON object");
  refused([](json& d) { d.erase("schedule"); }, "\"schedule\" is missing");
  refused([](json& d) { d["schedule"] = "ddmp-linear"; }, "did you mean 'ddpm-linear'?");
  refused([](json& d) { d["timestps"] = 1; }, "did you mean 'timesteps'?");
  refused([](json& d) { d.erase("times"); }, "needs one of \"times\"");
  refused([](json& d) { d["sigmas"] = {1, 0}; }, "needs one of \"times\"");
  refused([](json& d) { d["times"] = {0.5}; }, "at least one step");
  refused([](json& d) { d["times"] = {0.5, 0.2, 0.9}; }, "times fall");
  refused([](json& d) { d["times"] = {0.1, 0.5, 0.7, 0.9}; }, "3 steps need 3");
  refused([](json& d) { d.erase("b"); }, "needs one of \"method\"");
  refused([](json& d) { d["method"] = "ddim"; }, "needs one of \"method\"");
  refused([](json& d) { d["b"] = {{0.4}, {0.4}}; }, "b[1]");
  refused([](json& d) { d["over"] = "epsilon"; }, "unknown term");
  refused([](json& d) { d["space"] = "sigmas"; }, "did you mean 'sigma'?");
  refused([](json& d) { d["nfe"] = 3; }, "says 3 evaluations");
  refused([](json& d) { d["format"] = "bespoke-solver"; }, "bespoke-steps");
  refused([](json& d) { d["provenance"] = 3; }, "provenance must be an object");
  refused([](json& d) { d["solvers"] = json::array(); }, "unknown key");
  const auto weigh = [](json& d, const json& weights, const std::string& over) {
    d.erase("a");
    d.erase("b");
    d["weights"] = weights;
    d["over"] = over;
  };
  refused([&](json& d) { weigh(d, {{1}, {1, 2, 3}}, "data"); }, "weights[1] has 3 entries");
  refused([&](json& d) { weigh(d, {{1}}, "data"); }, "1 rows of weights");
  refused([&](json& d) { weigh(d, {{1}, {1}}, "v"); }, "not v");
  refused(
      [&](json& d) {
        weigh(d, {{0.9}, {1}}, "noise");
        d["schedule"] = "fm-ot";
        d["times"] = {0, 0.5, 0.9};
      },
      "alpha = 0");
}

}  // namespace
}  // namespace bespoke
