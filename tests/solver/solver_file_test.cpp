#include "bespoke/solver/solver_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/solver/catalogue.h"

namespace bespoke {
namespace {

using nlohmann::json;

SolverFile example() {
  const SchedulePtr vp = vp_schedule();
  return {"unipc3-bh2 \"quoted\"",
          make_solver("unipc3-bh2", {7, vp, "uniform-lambda"}),
          {Prediction::noise, vp, 2.5},
          {{"seed", 3}, {"psnr", 41.25}}};
}

TEST(SolverFile, RoundTripsExactly) {
  const SolverFile file = example();
  const SolverFile copy = parse_solver_file(to_json_text(file), "copy");
  EXPECT_TRUE(copy.solver == file.solver);
  EXPECT_EQ(copy.name, file.name);
  EXPECT_EQ(copy.field.prediction, file.field.prediction);
  EXPECT_EQ(copy.field.guidance, GuidanceWeight(2.5));
  EXPECT_EQ(copy.field.schedule->describe(), file.field.schedule->describe());
  EXPECT_EQ(copy.provenance, file.provenance);
  EXPECT_EQ(to_json_text(copy), to_json_text(file));
}

TEST(SolverFile, EveryBitOfARandomSolverSurvives) {
  NsSolver solver = make_solver("euler", {20, fm_ot_schedule(), ""});
  const auto numbers = uniform_numbers(1, 1, 400);
  size_t next = 0;
  for (auto& row : solver.b) {
    for (double& value : row) {
      value = std::ldexp(numbers[next] - 0.5, static_cast<int>(next % 80) - 40);
      ++next;
    }
  }
  SolverFile file = example();
  file.solver = solver;
  EXPECT_TRUE(parse_solver_file(to_json_text(file), "copy").solver == solver);
}

TEST(SolverFile, KeepsAUsersTable) {
  SolverFile file = example();
  file.field.schedule = table_schedule({0.9, 0.5, 0.1});
  const SolverFile copy = parse_solver_file(to_json_text(file), "copy");
  EXPECT_EQ(copy.field.schedule->alpha(0.3), file.field.schedule->alpha(0.3));
}

TEST(SolverFile, KeepsAPreconditionedSchedule) {
  SolverFile file = example();
  file.field.schedule = preconditioned_schedule(table_schedule({0.9, 0.5, 0.1}), 2.5);
  const SolverFile copy = parse_solver_file(to_json_text(file), "copy");
  EXPECT_EQ(copy.field.schedule->describe(), file.field.schedule->describe());
  EXPECT_EQ(copy.field.schedule->sigma(0.3), file.field.schedule->sigma(0.3));
}

// One clear sentence that contains `expected`, and exit code 3.
void expect_refused(const std::string& text, const std::string& expected) {
  try {
    parse_solver_file(text, "my.solver.json");
    ADD_FAILURE() << "accepted what should say: " << expected;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.exit_code(), 3) << message;
    EXPECT_EQ(message.rfind("my.solver.json", 0), 0u) << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

void expect_refused_after(const std::function<void(json&)>& change, const std::string& expected) {
  json document = json::parse(to_json_text(example()));
  change(document);
  expect_refused(document.dump(), expected);
}

TEST(SolverFile, RefusesEachWayAFileCanBeWrong) {
  expect_refused("", "not a JSON file");
  expect_refused("solver", "not a JSON file");
  expect_refused(to_json_text(example()).substr(0, 300), "not a JSON file");
  expect_refused("{}", "\"format\" must be");
  expect_refused("[1, 2]", "\"format\" must be");
  for (const auto& key : {"name", "nfe", "times", "a", "b", "field", "version"}) {
    expect_refused_after([&](json& d) { d.erase(key); },
                         std::string("key \"") + key + "\" is missing");
  }
  expect_refused_after([](json& d) { d["tmes"] = 1; }, "unknown key 'tmes'; did you mean 'times'?");
  expect_refused_after([](json& d) { d["field"]["guidnce"] = 1; }, "did you mean 'guidance'?");
  expect_refused_after([](json& d) { d["times"].erase(2); }, "times: has 7 entries, 8 are needed");
  expect_refused_after([](json& d) { d["a"].push_back(1); }, "a: has 8 entries, 7 are needed");
  expect_refused_after([](json& d) { d["b"].erase(0); }, "b has 6 rows, 7 are needed");
  expect_refused_after([](json& d) { d["b"][3].erase(0); }, "b[3]: has 3 entries, 4 are needed");
  expect_refused_after([](json& d) { d["a"][2] = nullptr; }, "a[2]: must be a number, found null");
  expect_refused_after([](json& d) { d["b"][2][1] = "NaN"; }, "b[2][1]: must be a number");
  expect_refused_after([](json& d) { d["times"][3] = 0.0; }, "times fall from");
  expect_refused_after([](json& d) { d["times"][7] = 1.5; }, "times[7] is 1.5");
  expect_refused_after([](json& d) { d["nfe"] = 0; }, "nfe: is 0");
  expect_refused_after([](json& d) { d["nfe"] = 1000000000; }, "nfe: is 1000000000");
  expect_refused_after([](json& d) { d["nfe"] = 7.5; }, "whole number");
  expect_refused_after([](json& d) { d["nfe"] = "7"; }, "whole number");
  expect_refused_after([](json& d) { d["version"] = 2; }, "newer bespoke");
  expect_refused_after([](json& d) { d["version"] = 0; }, "unknown file version");
  expect_refused_after([](json& d) { d["field"]["prediction"] = "epsilon"; }, "unknown prediction");
  expect_refused_after(
      [](json& d) {
        d["field"]["schedule"] = {{"name", "vpp"}};
      },
      "unknown schedule");
  expect_refused_after(
      [](json& d) {
        d["field"]["schedule"] = {{"name", "vp"}, {"B", "x"}};
      },
      "number");
  expect_refused_after(
      [](json& d) {
        d["field"]["schedule"] = {{"name", "table"}};
      },
      "alphas_cumprod");
  expect_refused_after(
      [](json& d) {
        d["field"]["schedule"] = {{"name", "vp"}, {"C", 1}};
      },
      "unknown key 'C'");
  expect_refused_after([](json& d) { d["times"] = 3; }, "must be a list");
  expect_refused_after([](json& d) { d["name"] = 3; }, "must be a text");
  std::string overflow = to_json_text(example());
  overflow.replace(overflow.find("\"a\": [") + 6, 1, "1e999, ");
  expect_refused(overflow, "not a JSON file");
}

}  // namespace
}  // namespace bespoke
