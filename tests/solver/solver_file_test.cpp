#include "bespoke/solver/solver_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/solver/catalogue.h"
#include "self_guided.h"

namespace bespoke {
namespace {

using nlohmann::json;

SolverFile example() {
  const SchedulePtr vp = vp_schedule();
  return {"unipc3-bh2 \"quoted\"",
          {Prediction::noise, vp, 2.5, {{"convention", "index"}, {"levels", 1000}}},
          {{make_solver("unipc3-bh2", {7, vp, "uniform-lambda"})}},
          {{"seed", 3}, {"psnr", 41.25}}};
}

// Solvers of 3, 5 and 8 evaluations.
SolverFile several() {
  SolverFile file = example();
  file.solvers.clear();
  for (const int nfe : {3, 5, 8}) {
    file.solvers.push_back(
        {make_solver("euler", {nfe, file.field.schedule}), {{"psnr", 10 * nfe}}});
  }
  return file;
}

// As it was written before a file held several.
const char kVersion1[] = R"({
  "format": "bespoke-solver",
  "version": 1,
  "name": "bns-nfe2",
  "nfe": 2,
  "start_scale": 0.5,
  "times": [0, 0.5, 1],
  "a": [1, 1.25],
  "b": [
    [0.5],
    [0.1, 1]
  ],
  "field": {"guidance":1.5,"prediction":"velocity","schedule":{"name":"fm-ot"}},
  "provenance": {"validation_psnr":30.5}
})";

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

TEST(SolverFile, KeepsWhatIsClipped) {
  SolverFile file = example();
  EXPECT_EQ(to_json_text(file).find("clip"), std::string::npos);
  EXPECT_EQ(file.field.stepped_with(), Prediction::noise);
  for (const Clip& clip : {Clip{-1, 1}, Clip{-2, 2, 0.995, 3}}) {
    file.field.clip = clip;
    EXPECT_EQ(file.field.stepped_with(), Prediction::data);
    EXPECT_EQ(parse_solver_file(to_json_text(file), "file").field.clip, clip);
  }
}

TEST(SolverFile, RoundTripsExactly) {
  const SolverFile file = example();
  const SolverFile copy = parse_solver_file(to_json_text(file), "copy");
  EXPECT_TRUE(copy.at() == file.at());
  EXPECT_EQ(copy.name, file.name);
  EXPECT_EQ(copy.field.prediction, file.field.prediction);
  EXPECT_EQ(copy.field.guidance, GuidanceWeight(2.5));
  EXPECT_EQ(copy.field.schedule->describe(), file.field.schedule->describe());
  EXPECT_EQ(copy.field.time, file.field.time);
  EXPECT_EQ(copy.provenance, file.provenance);
  EXPECT_EQ(to_json_text(copy), to_json_text(file));
}

// One with built-in guidance in the first two of three steps.
SolverFile guided_example() {
  SolverFile file = example();
  file.solvers = {
      {testing::guided_in_the_first(make_solver("euler", {3, file.field.schedule}), 2, 2.5),
       {{"psnr", 40}}}};
  return file;
}

void expect_refused_guided(const std::function<void(json&)>& change, const std::string& expected) {
  json document = json::parse(to_json_text(guided_example()));
  change(document);
  expect_refused(document.dump(), expected);
}

TEST(SolverFile, ASolverThatGuidesItselfRoundTripsExactly) {
  const SolverFile file = guided_example();
  const std::string text = to_json_text(file);
  const SolverFile copy = parse_solver_file(text, "copy");
  EXPECT_TRUE(copy.at() == file.at());
  EXPECT_EQ(copy.at().guided, (std::vector<int>{0, 1}));
  EXPECT_EQ(to_json_text(copy), text);
  // Others are written as they were before there were any.
  for (const char* key : {"guided", "\"c\""}) {
    EXPECT_NE(text.find(key), std::string::npos);
    EXPECT_EQ(to_json_text(several()).find(key), std::string::npos);
  }
}

TEST(SolverFile, BadGuidedStepsAreNamed) {
  const auto solver = [](json& document) -> json& { return document["solvers"][0]; };
  expect_refused_guided([&](json& d) { solver(d).erase("c"); }, "guided: goes with \"c\"");
  expect_refused_guided([&](json& d) { solver(d).erase("guided"); }, "one of the two is missing");
  expect_refused_guided([&](json& d) { solver(d)["guided"] = json::array(); }, "a list of steps");
  expect_refused_guided([&](json& d) { solver(d)["guided"][1] = 3; }, "solvers[0].guided[1]");
  expect_refused_guided([&](json& d) { solver(d)["guided"][1] = 0.5; }, "solvers[0].guided[1]");
  expect_refused_guided([&](json& d) { solver(d)["guided"] = {1, 0}; }, "steps must rise");
  expect_refused_guided([&](json& d) { solver(d)["c"].erase(0); }, "c: has 2 rows, 3 are needed");
  expect_refused_guided([&](json& d) { solver(d)["c"][2].push_back(1); }, "solvers[0].c[2]");
  expect_refused_guided([&](json& d) { solver(d)["c"][0][0] = "1"; }, "solvers[0].c[0]");
  expect_refused_guided([&](json& d) { d["field"]["guidance"] = 0; }, "for one guidance weight");
  expect_refused_guided(
      [&](json& d) {
        d["field"]["guidance"] = {{"from", 0}, {"to", 4}};
      },
      "for one guidance weight");
  json first = json::parse(kVersion1);
  first["guided"] = {0};
  expect_refused(first.dump(), "guided");
}

TEST(SolverFile, IsWrittenAsDocumented) {
  NsSolver midpoint;
  midpoint.times = {0, 0.5, 1};
  midpoint.a = {1, 1};
  midpoint.b = {{0.5}, {0, 1}};
  const SolverFile file = {"mine", {Prediction::velocity, fm_ot_schedule(), {}}, {{midpoint}}};
  EXPECT_EQ(json::parse(to_json_text(file)), json::parse(R"({
    "format": "bespoke-solver", "version": 2, "name": "mine",
    "field": {"prediction": "velocity", "schedule": {"name": "fm-ot"}, "guidance": 0.0},
    "solvers": [{"nfe": 2, "start_scale": 1, "times": [0, 0.5, 1], "a": [1, 1],
                 "b": [[0.5], [0, 1]]}],
    "provenance": {}})"));
}

TEST(SolverFile, HoldsOneSolverForEachNfe) {
  const SolverFile copy = parse_solver_file(to_json_text(several()), "copy");
  EXPECT_EQ(copy.nfes(), (std::vector<int>{3, 5, 8}));
  EXPECT_TRUE(copy.has(5));
  EXPECT_FALSE(copy.has(4));
  for (const int nfe : {3, 5, 8}) {
    EXPECT_TRUE(copy.at(nfe) == make_solver("euler", {nfe, vp_schedule()}));
    // What is said of the solver comes before what is said of the file.
    EXPECT_EQ(to_json(copy.provenance_of(nfe)), (json{{"seed", 3}, {"psnr", 10 * nfe}}));
  }
  const SolverFile five = copy.only(5);
  EXPECT_EQ(five.nfes(), std::vector<int>{5});
  EXPECT_TRUE(five.at() == copy.at(5));
  EXPECT_EQ(five.field.guidance, copy.field.guidance);
}

TEST(SolverFile, PutsSolversInTheirPlace) {
  SolverFile file = several();
  const NsSolver midpoint = make_solver("midpoint", {8, fm_ot_schedule()});
  file.put({midpoint, {}});
  for (const int nfe : {9, 2, 4}) file.put({make_solver("euler", {nfe, fm_ot_schedule()}), {}});
  EXPECT_EQ(file.nfes(), (std::vector<int>{2, 3, 4, 5, 8, 9}));
  EXPECT_TRUE(file.at(8) == midpoint);
  EXPECT_NO_THROW(file.validate());
}

TEST(SolverFile, NamesThoseThatAreThere) {
  const auto refusal = [](const SolverFile& file, int nfe, ErrorKind kind) -> std::string {
    try {
      file.at(nfe);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "no error";
  };
  SolverFile file = several();
  file.name = "bns";
  EXPECT_EQ(refusal(file, 4, ErrorKind::bad_input),
            "bns has no solver of 4 evaluations; it has 3, 5, 8");
  EXPECT_EQ(refusal(file, 0, ErrorKind::usage),
            "bns holds solvers of 3, 5, 8 evaluations; choose one of them");
  EXPECT_EQ(refusal(file.only(5), 8, ErrorKind::bad_input),
            "bns has no solver of 8 evaluations; it has 5");
}

TEST(SolverFile, ReadsVersion1) {
  const SolverFile file = parse_solver_file(kVersion1, "old");
  EXPECT_EQ(file.name, "bns-nfe2");
  EXPECT_EQ(file.nfes(), std::vector<int>{2});
  EXPECT_EQ(file.at(2).times, (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(file.at(2).a, (std::vector<double>{1, 1.25}));
  EXPECT_EQ(file.at(2).b, (std::vector<std::vector<double>>{{0.5}, {0.1, 1}}));
  EXPECT_EQ(file.at(2).start_scale, 0.5);
  EXPECT_EQ(file.field.guidance, GuidanceWeight(1.5));
  EXPECT_TRUE(file.field.time.is_null());
  EXPECT_EQ(to_json(file.provenance_of()), (json{{"validation_psnr", 30.5}}));
  EXPECT_TRUE(file.provenance_of().is_distilled());
  // And is written as what it has become.
  const json written = json::parse(to_json_text(file));
  EXPECT_EQ(written["version"], 2);
  EXPECT_EQ(written["solvers"][0]["b"], json::parse("[[0.5], [0.1, 1]]"));
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
  SolverFile file = several();
  file.put({solver, {}});
  EXPECT_TRUE(parse_solver_file(to_json_text(file), "copy").at(20) == solver);
}

TEST(SolverFile, KeepsARangeOfGuidance) {
  SolverFile file = example();
  file.field.guidance = GuidanceRange{-0.5, 4};
  const std::string text = to_json_text(file);
  EXPECT_EQ(json::parse(text)["field"]["guidance"], (json{{"from", -0.5}, {"to", 4.0}}));
  EXPECT_EQ(parse_solver_file(text, "copy").field.guidance, file.field.guidance);
  expect_refused_after(
      [](json& d) {
        d["field"]["guidance"] = {{"from", 4}, {"to", 0}};
      },
      "a range that rises");
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

TEST(SolverFile, RefusesEachWayAFileCanBeWrong) {
  expect_refused("", "not a JSON file");
  expect_refused("solver", "not a JSON file");
  expect_refused(to_json_text(example()).substr(0, 300), "not a JSON file");
  expect_refused("{}", "\"format\" must be");
  expect_refused("[1, 2]", "\"format\" must be");
  for (const auto& key : {"name", "field", "solvers", "version"}) {
    expect_refused_after([&](json& d) { d.erase(key); },
                         std::string("key \"") + key + "\" is missing");
  }
  expect_refused_after([](json& d) { d["nfe"] = 7; }, "unknown key 'nfe'");
  expect_refused_after([](json& d) { d["field"]["guidnce"] = 1; }, "did you mean 'guidance'?");
  expect_refused_after([](json& d) { d["field"]["time"] = {{"levels", 3}}; }, "convention");
  expect_refused_after(
      [](json& d) {
        d["field"]["time"] = {{"convention", "indx"}};
      },
      "did you mean 'index'?");
  expect_refused_after([](json& d) { d["field"]["time"] = {{"convention", "index"}}; }, "levels");
  expect_refused_after([](json& d) { d["field"]["time"]["input_scaling"] = "edn"; },
                       "did you mean 'edm'?");
  expect_refused_after([](json& d) { d["provenance"] = 3; }, "provenance must be an object");
  expect_refused_after([](json& d) { d["solvers"] = 3; }, "solvers: must be a list");
  expect_refused_after([](json& d) { d["solvers"] = json::array(); }, "solvers: must be a list");
  expect_refused_after([](json& d) { d["version"] = 3; }, "newer bespoke");
  expect_refused_after([](json& d) { d["version"] = 0; }, "unknown file version");
  expect_refused_after([](json& d) { d["version"] = 1.5; }, "unknown file version");
  expect_refused_after([](json& d) { d["field"]["prediction"] = "epsilo"; }, "unknown prediction");
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
  expect_refused_after([](json& d) { d["name"] = 3; }, "must be a text");
  std::string overflow = to_json_text(example());
  overflow.replace(overflow.find("\"a\": [") + 6, 1, "1e999, ");
  expect_refused(overflow, "not a JSON file");
}

void expect_solver_refused(const std::function<void(json&)>& change, const std::string& expected) {
  expect_refused_after([&](json& d) { change(d["solvers"][0]); }, "solvers[0]" + expected);
}

TEST(SolverFile, RefusesEachWayASolverCanBeWrong) {
  for (const auto& key : {"nfe", "times", "a", "b"}) {
    expect_solver_refused([&](json& s) { s.erase(key); },
                          std::string(": key \"") + key + "\" is missing");
  }
  expect_solver_refused([](json& s) { s["tmes"] = 1; },
                        ": unknown key 'tmes'; did you mean 'times'?");
  expect_solver_refused([](json& s) { s["times"].erase(2); },
                        ".times: has 7 entries, 8 are needed");
  expect_solver_refused([](json& s) { s["a"].push_back(1); }, ".a: has 8 entries, 7 are needed");
  expect_solver_refused([](json& s) { s["b"].erase(0); }, ".b: has 6 rows, 7 are needed");
  expect_solver_refused([](json& s) { s["b"][3].erase(0); }, ".b[3]: has 3 entries, 4 are needed");
  expect_solver_refused([](json& s) { s["a"][2] = nullptr; },
                        ".a[2]: must be a number, found null");
  expect_solver_refused([](json& s) { s["b"][2][1] = "NaN"; }, ".b[2][1]: must be a number");
  expect_solver_refused([](json& s) { s["times"] = 3; }, ".times: must be a list");
  expect_solver_refused([](json& s) { s["times"][3] = 0.0; }, ": times fall from");
  expect_solver_refused([](json& s) { s["times"][7] = 1.5; }, ": times[7] is 1.5");
  expect_solver_refused([](json& s) { s["nfe"] = 0; }, ".nfe: is 0");
  expect_solver_refused([](json& s) { s["nfe"] = 1000000000; }, ".nfe: is 1000000000");
  expect_solver_refused([](json& s) { s["nfe"] = 7.5; }, ".nfe: must be a whole number");
  expect_solver_refused([](json& s) { s["nfe"] = "7"; }, ".nfe: must be a whole number");
  expect_solver_refused([](json& s) { s["provenance"] = "x"; }, ": provenance must be an object");
}

TEST(SolverFile, RefusesAVersion1ThatIsWrong) {
  const auto expect = [](const std::function<void(json&)>& change, const std::string& expected) {
    json document = json::parse(kVersion1);
    change(document);
    expect_refused(document.dump(), expected);
  };
  for (const auto& key : {"name", "nfe", "times", "a", "b", "field"}) {
    expect([&](json& d) { d.erase(key); }, std::string("key \"") + key + "\" is missing");
  }
  expect([](json& d) { d["solvers"] = json::array(); }, "unknown key 'solvers'");
  expect([](json& d) { d["times"].erase(2); }, "my.solver.json: times: has 2 entries");
  expect([](json& d) { d["b"].erase(0); }, "my.solver.json: b: has 1 rows, 2 are needed");
  expect([](json& d) { d["times"][2] = 0.25; }, "times fall from");
}

TEST(SolverFile, RefusesTwoOfOneNfeAndDisorder) {
  const auto expect = [](std::vector<int> order, const std::string& expected) {
    const SolverFile file = several();
    json document = json::parse(to_json_text(file));
    const json solvers = document["solvers"];
    document["solvers"] = json::array();
    for (const int place : order)
      document["solvers"].push_back(solvers[static_cast<size_t>(place)]);
    expect_refused(document.dump(), expected);
  };
  expect({0, 1, 1}, "two solvers have 5 evaluations; keep one of them");
  expect({0, 2, 1}, "solvers must be in rising order of nfe, found 5 after 8");
  SolverFile twice = several();
  twice.solvers.push_back(twice.solvers.back());
  EXPECT_THROW(twice.validate(), Error);
  EXPECT_THROW(SolverFile().validate(), Error);
}

TEST(Provenance, ReadsBackWhatItWrites) {
  Provenance provenance;
  provenance.made_by = "a program";
  provenance.start = "fit/uniform-t";
  provenance.validation_psnr = 43.25;
  provenance.iterations = 7;
  provenance.more = {{"seed", 3}};
  const json written = to_json(provenance);
  EXPECT_EQ(written, (json{{"made_by", "a program"},
                           {"start", "fit/uniform-t"},
                           {"validation_psnr", 43.25},
                           {"iterations", 7},
                           {"seed", 3}}));
  EXPECT_EQ(to_json(provenance_from(written)), written);
  provenance.validation_psnr = std::nan("");  // nothing that JSON could hold
  EXPECT_FALSE(to_json(provenance).contains("validation_psnr"));
}

// Files that the Python package wrote before its keys were those of the program.
TEST(Provenance, UnderstandsOlderFiles) {
  const Provenance provenance = provenance_from(
      {{"made by", "bespoke-solvers 0.1"}, {"psnr", 41.5}, {"held out", 4}, {"samples", "many"}});
  EXPECT_EQ(provenance.made_by, "bespoke-solvers 0.1");
  EXPECT_TRUE(provenance.is_distilled());
  EXPECT_EQ(provenance.held_out, 4);
  EXPECT_EQ(provenance.more, (json{{"samples", "many"}}));
}

}  // namespace
}  // namespace bespoke
