#include "bespoke/solver/exported_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/c_header.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/imported_solver.h"
#include "plain_field.h"
#include "refusal.h"

namespace bespoke {
namespace {

using nlohmann::json;

SolverFile two_solvers() {
  const SchedulePtr schedule = make_schedule("ddpm-linear");
  SolverFile file = {"mine | 50% off_",
                     {Prediction::noise, schedule, 2, {{"convention", "index"}, {"levels", 1000}}},
                     {}};
  for (const int nfe : {3, 5}) {
    file.put({make_solver("dpm++2m", {nfe, schedule, "lambda-range"})});
  }
  return file;
}

// The table of `nfe` steps in a text, read back into a solver: every cell but the first of a row.
NsSolver read_back(const std::string& text, char separator, int nfe, double scale) {
  std::vector<std::vector<double>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = std::regex_replace(line, std::regex(R"( \\cdot 10\^\{(-?\d+)\})"), "e$1");
    line = std::regex_replace(line, std::regex(R"([$\\])"), "");
    std::vector<double> row;
    for (const auto& cell : detail::split(line, separator)) {
      std::istringstream stream(cell);
      if (double value = 0; stream >> value) row.push_back(value);
    }
    if (row.size() >= 4 && row[0] == static_cast<double>(row.size()) - 4) rows.push_back(row);
  }
  NsSolver solver;
  // Tables follow each other: the wanted one is the last of as many rows.
  std::vector<std::vector<double>> table;
  for (const auto& row : rows) {
    if (row[0] == 0) table.clear();
    table.push_back(row);
    if (static_cast<int>(table.size()) < nfe) continue;
    solver = NsSolver();
    for (const auto& entry : table) {
      solver.times.push_back(entry[1]);
      solver.a.push_back(entry[2]);
      solver.b.emplace_back(entry.begin() + 3, entry.end());
    }
  }
  solver.times.push_back(1);
  solver.start_scale = scale;
  return solver;
}

testing::Array drawn(const NsSolver& solver, const SolverFile& file) {
  const auto field =
      testing::mixture_field(testing::plain_mixture(), file.field.schedule, file.field.prediction);
  return testing::run(solver, field, testing::starting_noise(*file.field.schedule, 8, 6));
}

TEST(ExportedText, TablesDrawTheSolversSamples) {
  const SolverFile file = two_solvers();
  for (const int nfe : {3, 5}) {
    const NsSolver& own = file.at(nfe);
    const auto expected = drawn(own, file);
    for (const auto& [digits, tolerance] : {std::pair<int, double>{6, 1e-4}, {17, 1e-14}}) {
      const NsSolver markdown =
          read_back(markdown_text(file.only(nfe), digits), '|', nfe, own.start_scale);
      const NsSolver latex =
          read_back(latex_text(file.only(nfe), digits), '&', nfe, own.start_scale);
      ASSERT_EQ(markdown.nfe(), nfe);
      ASSERT_EQ(latex.nfe(), nfe);
      EXPECT_LT(testing::relative_error(drawn(markdown, file), expected), tolerance);
      EXPECT_LT(testing::relative_error(drawn(latex, file), expected), tolerance);
    }
  }
  EXPECT_EQ(read_back(markdown_text(file, 17), '|', 5, 1).b, file.at(5).b);
}

TEST(ExportedText, NamesCannotBreakATable) {
  const SolverFile file = two_solvers();
  EXPECT_NE(markdown_text(file).find("**mine \\| 50% off\\_**"), std::string::npos);
  EXPECT_NE(latex_text(file).find("mine | 50\\% off\\_:"), std::string::npos);
  EXPECT_THROW(markdown_text(file, 0), Error);
  EXPECT_THROW(latex_text(file, 18), Error);
}

TEST(ExportedText, SigmasRunOnADenoiser) {
  const SolverFile file = two_solvers();
  const json document = json::parse(sigmas_text(file));
  const Schedule& schedule = *file.field.schedule;
  auto data =
      testing::mixture_field(testing::plain_mixture(), file.field.schedule, Prediction::data);
  for (const json& solver : document["solvers"]) {
    const int nfe = solver["nfe"];
    const testing::Array noise = testing::starting_noise(schedule, 8, 6);
    const testing::Array start = solver["start_scale"].get<double>() * noise;
    testing::Array y = start;
    std::vector<testing::Array> slopes;
    for (size_t i = 0; i < solver["a"].size(); ++i) {
      const double sigma = solver["sigmas"][i];
      const double t = schedule.time_at_snr(1 / sigma);
      // The model sees x = alpha y.
      const testing::Array denoised = data.output(t, schedule.alpha(t) * y);
      slopes.push_back((y - denoised) / sigma);
      y = solver["a"][i].get<double>() * start;
      for (size_t j = 0; j <= i; ++j) y = y + solver["b"][i][j].get<double>() * slopes[j];
    }
    EXPECT_EQ(solver["sigmas"].back(), 0);
    EXPECT_LT(testing::relative_error(y, drawn(file.at(nfe), file)), 1e-6) << nfe;
  }
}

TEST(ExportedText, ADiffusersConfigHoldsEverySolver) {
  const SolverFile file = two_solvers();
  const json config = json::parse(diffusers_config_text(file));
  EXPECT_EQ(config["_class_name"], "BespokeScheduler");
  EXPECT_EQ(config["prediction_type"], "epsilon");
  EXPECT_EQ(config["num_train_timesteps"], 1000);
  EXPECT_EQ(config["beta_schedule"], "linear");
  ASSERT_EQ(config["solvers"].size(), 2u);
  EXPECT_TRUE(parse_solver_file(config["solvers"][1].dump(), "config").at() == file.at(5));
  const auto refused = [](Prediction prediction, const SchedulePtr& schedule) {
    const SolverFile other = {
        "mine", {prediction, schedule, 0}, {{make_solver("euler", {2, schedule})}}};
    return testing::refusal([&] { diffusers_config_text(other); });
  };
  EXPECT_EQ(refused(Prediction::velocity, fm_ot_schedule()), "");
  EXPECT_NE(refused(Prediction::noise, vp_schedule()).find("schedule vp"), std::string::npos);
  EXPECT_NE(refused(Prediction::edm, make_schedule("ddpm-linear")).find("edm predictions"),
            std::string::npos);
}

// What clips says so, to readers who know of it, and is refused where it would be left out.
TEST(ExportedText, AClipIsKeptOrRefused) {
  SolverFile file = two_solvers();
  EXPECT_EQ(json::parse(sigmas_text(file))["version"], 1);
  file.field.clip = Clip{-1, 1};
  const json document = json::parse(sigmas_text(file));
  EXPECT_EQ(document["version"], 2);
  EXPECT_EQ(import_solvers(document, "sigmas").field.clip, file.field.clip);
  EXPECT_NE(markdown_text(file).find("data clipped to [-1, 1]"), std::string::npos);
  EXPECT_NE(latex_text(file).find("data clipped to [-1, 1]"), std::string::npos);
  const json scheduler = json::parse(diffusers_config_text(file));
  EXPECT_EQ(scheduler["solvers"][0]["field"]["clip"], json({-1, 1}));
  EXPECT_NE(c_header(file.only(3)).find("_clip[2] = {-1, 1}"), std::string::npos);
  file.field.clip = Clip{-1, 1, 0.99, 2};
  EXPECT_NE(testing::refusal([&] { c_header(file.only(3)); }).find("torchscript"),
            std::string::npos);
  file = two_solvers();
  file.field.schedule = make_schedule("ddpm-linear:end=0.9");
  EXPECT_NE(testing::refusal([&] { diffusers_config_text(file); }).find("part"), std::string::npos);
}

TEST(CHeader, SaysWhatTheNetworkIsGiven) {
  SolverFile file = two_solvers();
  const std::string text = c_header(file.only(3));
  const double index = 1000 * (1 - file.at(3).times[1]) - 1;
  EXPECT_NE(text.find("_network_times[3] = {"), std::string::npos);
  EXPECT_NE(text.find(detail::exact(index)), std::string::npos) << text;
  file.field.time = nullptr;
  EXPECT_EQ(c_header(file.only(3)).find("_network_times"), std::string::npos);
}

TEST(CHeader, MakesIdentifiersOfNamesAndRefusesBadOnes) {
  SolverFile file = two_solvers();
  EXPECT_NE(c_header(file.only(5)).find("#define MINE_50_OFF_NFE 5"), std::string::npos);
  file.name = "8 steps */ für /* mich /*/";
  const std::string text = c_header(file.only(5));
  EXPECT_NE(text.find("solver_8_steps_f_r_mich_a"), std::string::npos);
  size_t begun = 0, ended = 0;
  for (size_t at = 0; (at = text.find("/*", at)) != std::string::npos; ++at) ++begun;
  for (size_t at = 0; (at = text.find("*/", at)) != std::string::npos; ++at) ++ended;
  EXPECT_EQ(begun, ended);
  EXPECT_NE(text.find("8 steps *? f??r /? mich /?/:"), std::string::npos) << text.substr(0, 80);
  EXPECT_THROW(c_header(file.only(5), {{}, "2 bad"}), Error);
  EXPECT_THROW(c_header(file), Error);  // holds two
}

}  // namespace
}  // namespace bespoke
