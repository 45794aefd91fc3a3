// Solvers that guide themselves on the command line: distilled, shown, run, compared and refused.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "bespoke/base/file.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {
namespace {

using nlohmann::json;

const std::string kSelfGuidedModel =
    "--model analytic:mixture:dim=48,classes=3 --dtype fp64 --threads 1 ";

class NetworkCallsCommand : public CommandLine {
 protected:
  std::string distil(const std::string& more) const {
    return "distill " + kSelfGuidedModel + "--samples 24 --tolerance 1e-4 --iterations 2 " + more;
  }
  NsSolver solver(const std::string& folder) const {
    return read_solver_file(folder_ / folder / "bns.solver.json").at();
  }
};

TEST_F(NetworkCallsCommand, FindsStepsThatSpendThem) {
  const Outcome made = run(distil("--guidance 2 --network-calls 8 -o run"));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("(8 network calls, the first"), std::string::npos) << made.err;
  EXPECT_NE(made.out.find("calls"), std::string::npos);
  EXPECT_EQ(solver("run").shape().calls(), 8);
  EXPECT_TRUE(fs::exists(folder_ / "run/calls-08/summary.json"));
  // A number of steps can be asked for.
  const Outcome fixed =
      run(distil("--guidance-scale 3 --network-calls 8 --nfe 5 --start-scale 1 -o five"));
  ASSERT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_TRUE(solver("five").shape() == guided_first(5, 3));
  EXPECT_EQ(solver("five").start_scale, 1);

  const Outcome shown = run("show run/bns.solver.json");
  ASSERT_EQ(shown.code, 0);
  EXPECT_NE(shown.out.find("built-in guidance: 8 network calls per sample"), std::string::npos);
  EXPECT_NE(shown.out.find("c0"), std::string::npos);

  const std::string sample = "sample " + kSelfGuidedModel + "--cond class=1 --count 4 ";
  const Outcome drawn = run(sample + "--guidance 2 --solver run/bns.solver.json -o s");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_NE(drawn.out.find("(8 network calls)"), std::string::npos) << drawn.out;
  for (const std::string guidance : {"", "--guidance 3 ", "--guidance 0-4 "}) {
    expect_failure(sample + guidance + "--solver run/bns.solver.json -o t", 3,
                   "has guidance w = 2 (guidance_scale 3) built in and no other");
  }
}

TEST_F(NetworkCallsCommand, ComparesByNetworkCalls) {
  ASSERT_EQ(run(distil("--guidance 2 --network-calls 8 --method fit -o run")).code, 0);
  const std::string compare = "compare " + kSelfGuidedModel +
                              "--guidance 2 --cond class=0-2 --count 9 --nfe 4 --tolerance 1e-4 "
                              "--solvers midpoint,run/bns.solver.json ";
  const Outcome table = run(compare);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("by network calls"), std::string::npos) << table.out;
  const Outcome figures = run(compare + "--format json");
  const json rows = json::parse(figures.out);
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) EXPECT_EQ(row["model_calls"], 8);
  EXPECT_EQ(rows[0]["nfe"], 4);
  EXPECT_GT(rows[1]["nfe"], 4);
  EXPECT_GT(rows[1]["psnr_db"], rows[0]["psnr_db"]);
  ASSERT_EQ(run(compare + "--report page.html").code, 0);
  const std::string page = detail::read_file(folder_ / "page.html");
  EXPECT_NE(page.find("<strong>8 network calls</strong> reach"), std::string::npos);
  EXPECT_NE(page.find("Quality against network calls"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"col\">c<sub>0</sub></th>"), std::string::npos);
}

TEST_F(NetworkCallsCommand, GoesOnWhereItStopped) {
  const std::string command = distil("--guidance 2 --network-calls 6 -o ");
  ASSERT_EQ(run(command + "run").code, 0);
  const Outcome again = run(command + "run --resume");
  EXPECT_EQ(again.code, 0) << again.err;
  expect_failure(distil("--guidance 2 --network-calls 8 -o run --resume"), 3, "network_calls");
  expect_failure(distil("--guidance 2 --nfe 6 -o run --resume"), 3, "was begun with");
}

TEST_F(NetworkCallsCommand, WhatDoesNotGoTogetherIsRefused) {
  const std::string calls = "--network-calls 8 -o x ";
  expect_failure(distil(calls), 2, "needs one guidance weight");
  expect_failure(distil("--guidance 0-4 " + calls), 2, "needs one guidance weight");
  expect_failure(distil("--guidance 2 --family bst " + calls), 2, "leave out --family bst");
  expect_failure(distil("--guidance 2 --method adam " + calls), 2, "instead of adam");
  expect_failure(distil("--guidance 2 --init midpoint " + calls), 2, "leave out --init");
  expect_failure(distil("--guidance 2 --init euler@sigma0=2 " + calls), 2, "leave out --init");
  expect_failure(distil("--guidance 2 --nfe 8 " + calls), 2, "9 to 16 network calls");
  expect_failure(distil("--guidance 2 --nfe 3 " + calls), 2, "4 to 6 network calls");
  expect_failure(distil("--guidance 2 --nfe 5,6 " + calls), 2, "one --nfe at most");
  expect_failure(distil("--guidance 2 --network-calls 1 -o x"), 2, "2 to 10000 network calls");
  expect_failure("distill --guidance 2 --network-calls 8 -o x", 3, "a null value");
  EXPECT_FALSE(fs::exists(folder_ / "x"));

  ASSERT_EQ(
      run("pairs " + kSelfGuidedModel + "--guidance 2 --count 16 --validation 8 -o pairs").code, 0);
  expect_failure(
      "distill " + kSelfGuidedModel + "--guidance 2 --pairs pairs --network-calls 8 -o y", 3,
      "trajectories");
}

TEST_F(NetworkCallsCommand, ExportsThatCannotRunThemSaySo) {
  ASSERT_EQ(run(distil("--guidance 2 --network-calls 6 --method fit -o run")).code, 0);
  for (const std::string to : {"c", "markdown", "latex", "sigmas", "diffusers -o d"}) {
    expect_failure("export run/bns.solver.json --to " + to, 3,
                   "cannot take a solver with built-in guidance");
  }
  expect_failure(
      "distill " + kSelfGuidedModel + "--guidance 2 --nfe 5 --init run/bns.solver.json -o z", 3,
      "guide");
}

}  // namespace
}  // namespace bespoke
