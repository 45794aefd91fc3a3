// Distilling on the command line: the files it leaves, stopping and going on, and bad input.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bespoke/base/file.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/solver/solver_file.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;

const std::string kMixtureWithClasses =
    "--model analytic:mixture:dim=12,classes=3 --dtype fp64 --threads 1 ";

class DistillCommand : public CommandLine {
 protected:
  void SetUp() override {
    const auto outcome =
        run("pairs " + kMixtureWithClasses + "--count 96 --validation 48 -o pairs");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  std::string command(const std::string& rest) const {
    return "distill " + kMixtureWithClasses + "--pairs pairs " + rest;
  }

  json summary(const std::string& folder) const {
    return json::parse(read_file(folder_ / folder / "summary.json"));
  }

  std::vector<std::string> starts(const std::string& folder) const {
    std::vector<std::string> names;
    const json state = json::parse(read_file(folder_ / folder / "checkpoint.json"));
    for (const auto& start : state["starts"]) names.push_back(start["name"]);
    return names;
  }
};

TEST_F(DistillCommand, SaysWhereFewWereHeldOut) {
  const Outcome outcome = run("distill --nfe 3 --method fit --calls 4000 -o few");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("held-out pairs (few, and they chose among iterates too)"),
            std::string::npos)
      << outcome.out;
}

TEST_F(DistillCommand, WritesSolversThatKeepTheirPromise) {
  const auto outcome = run(command("--nfe 4,6 --iterations 6 --train-batch 48 -o run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(
      outcome.out.find("on 48 held-out pairs (they chose among iterates too), distilled on 96"),
      std::string::npos);
  EXPECT_NE(outcome.out.find("in run/bns.solver.json\n"), std::string::npos) << outcome.out;
  const SolverFile file = read_solver_file(folder_ / "run/bns.solver.json");
  EXPECT_EQ(file.name, "bns");
  EXPECT_EQ(file.nfes(), (std::vector<int>{4, 6}));
  EXPECT_EQ(file.provenance["method"], "auto");
  for (const int nfe : {4, 6}) {
    const json provenance = to_json(file.provenance_of(nfe));
    EXPECT_EQ(provenance["vjps"], 0);
    EXPECT_GT(provenance["forwards"].get<int64_t>(), 0);
    const double promised = provenance["validation_psnr"];
    EXPECT_GT(promised, provenance["initial_psnr"].get<double>() + 3);
    // On noise that neither split has seen.
    const auto rows = json::parse(run("compare " + kMixtureWithClasses +
                                      "--cond class=0-2 --count 48 --nfe " + std::to_string(nfe) +
                                      " --solvers midpoint,run/bns.solver.json --format json")
                                      .out);
    EXPECT_GT(rows[1]["psnr_db"].get<double>(), promised - 3);
    EXPECT_GT(rows[1]["psnr_db"], rows[0]["psnr_db"]);
  }
  std::istringstream log(read_file(folder_ / "run/nfe-04/log.jsonl"));
  std::string line;
  int lines = 0;
  for (; std::getline(log, line); ++lines) EXPECT_TRUE(json::parse(line).contains("loss"));
  EXPECT_GE(lines, 2);
  // A finished run is not begun again.
  expect_failure(command("--nfe 4,6 --iterations 6 --train-batch 48 -o run"), 2, "--resume");
  EXPECT_EQ(run(command("--nfe 4,6 --iterations 6 --train-batch 48 -o run --resume")).out,
            outcome.out);
  expect_failure(command("--nfe 4,6 --iterations 7 --train-batch 48 -o run --resume"), 3,
                 "was begun with iterations = 6");
}

TEST_F(DistillCommand, AnInterruptedRunGoesOnToTheSameSolver) {
  const std::string rest =
      "--nfe 6 --method adam --init midpoint --iterations 3000 --train-batch 8 -o ";
  ASSERT_EQ(run(command(rest + "whole")).code, 0);
  const Outcome interrupted =
      interrupt_when("[ -s broken/nfe-06/log.jsonl ]", command(rest + "broken"));
  ASSERT_EQ(interrupted.code, 130) << interrupted.err;
  EXPECT_NE(interrupted.err.find("add --resume to go on"), std::string::npos);
  EXPECT_TRUE(read_solver_file(folder_ / "broken/bns.solver.json").has(6));
  const auto resumed = run(command(rest + "broken --resume"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto whole = read_solver_file(folder_ / "whole/bns.solver.json");
  const auto broken = read_solver_file(folder_ / "broken/bns.solver.json");
  EXPECT_TRUE(whole.at(6) == broken.at(6));
  EXPECT_EQ(summary("whole/nfe-06")["forwards"], summary("broken/nfe-06")["forwards"]);
}

TEST_F(DistillCommand, AKilledRunLeavesWhatIsFinishedAndGoesOnToTheSameSolvers) {
  const std::string rest =
      "--nfe 2,4,6 --method adam --init euler --iterations 1500 --train-batch 8 -o ";
  ASSERT_EQ(run(command(rest + "whole")).code, 0);
  // Once the third has begun, two are finished.
  kill_when("[ -s broken/nfe-06/log.jsonl ]", command(rest + "broken"));
  const fs::path path = folder_ / "broken/bns.solver.json";
  const SolverFile whole = read_solver_file(folder_ / "whole/bns.solver.json");
  const SolverFile left = read_solver_file(path);
  EXPECT_EQ(left.nfes(), (std::vector<int>{2, 4}));
  for (const int nfe : {2, 4}) EXPECT_TRUE(left.at(nfe) == whole.at(nfe)) << nfe;
  const auto resumed = run(command(rest + "broken --resume"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const SolverFile broken = read_solver_file(path);
  EXPECT_EQ(broken.nfes(), whole.nfes());
  for (const int nfe : whole.nfes()) EXPECT_TRUE(broken.at(nfe) == whole.at(nfe)) << nfe;
}

// A log that cannot grow stops the run, and nothing is missing from it in the end.
TEST_F(DistillCommand, AFullDiskLosesNothingOfTheLog) {
  const std::string distil = command("--nfe 2 --method direct --iterations 20 -o run");
  const std::string limited = "cd '" + folder_.string() +
                              "' && ulimit -f 3 && '" BESPOKE_BINARY "' " + distil +
                              " >/dev/null 2>err.txt";
  EXPECT_EQ(WEXITSTATUS(std::system(limited.c_str())), 1);
  EXPECT_NE(read_file(folder_ / "err.txt").find("log.jsonl"), std::string::npos);
  const auto resumed = run(distil + " --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const std::string log = read_file(folder_ / "run/nfe-02/log.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 20);
}

TEST_F(DistillCommand, DistilsScaleTimeSolversAndPreconditionedStarts) {
  ASSERT_EQ(run(command("--family bst --nfe 4 --iterations 8 --train-batch 64 -o bst")).code, 0);
  EXPECT_GT(summary("bst/nfe-04")["validation_psnr"], summary("bst/nfe-04")["initial_psnr"]);
  ASSERT_EQ(
      run(command("--nfe 4 --iterations 8 --init midpoint,midpoint@sigma0=2 --train-batch 64 -o s"))
          .code,
      0);
  EXPECT_GT(summary("s/nfe-04")["validation_psnr"], summary("s/nfe-04")["initial_psnr"]);
}

TEST_F(DistillCommand, StartsFromTheNearestOfTheCatalogue) {
  const std::string vp = "--model analytic:mixture:dim=12,prediction=noise@vp ";
  ASSERT_EQ(run("pairs " + vp + "--count 96 --validation 48 -o vp").code, 0);
  const auto best = [&](const std::string& init, const std::string& folder) {
    const auto outcome =
        run("distill " + vp + "--pairs vp --nfe 4 --iterations 4 --init " + init + " -o " + folder);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return summary(folder + "/nfe-04");
  };
  const json automatic = best("auto", "a"), plain = best("midpoint", "b");
  // Six methods on five grids, on 8 pairs each, then the nearest of each grid on 16.
  EXPECT_EQ(automatic["screening_forwards"], (6 * 5 * 8 + 5 * 16) * 4);
  EXPECT_FALSE(plain.contains("screening_forwards"));
  EXPECT_GT(automatic["initial_psnr"], plain["initial_psnr"]);
  EXPECT_GT(automatic["validation_psnr"], automatic["initial_psnr"]);
  EXPECT_EQ(run("distill " + vp + "--pairs vp --nfe 4 --iterations 2 --family bst -o bst").code, 0);
  ASSERT_EQ(std::system(("mkdir " + (folder_ / "t").string()).c_str()), 0);
  write_file_atomically(folder_ / "t/mine.json",
                        R"({"a": [[], [0.5]], "b": [0, 1], "c": [0, 0.5]})");
  EXPECT_EQ(best("tableau:t/mine.json", "e")["start"], "tableau:t/mine.json");
  EXPECT_EQ(best("dpm++2m/uniform-lambda", "d")["start"], "dpm++2m/uniform-lambda");
  write_file_atomically(folder_ / "run=8.solver.json", read_file(folder_ / "d/bns.solver.json"));
  const std::vector<std::string> several = {
      "deis-t-ab3/lambda-range:from=-3,to=4", "euler/custom:0,2e-1,0.5,0.7,1", "midpoint",
      "ab2/lambda-range:from=-3,to=4@fm-ot", "run=8.solver.json"};
  best(fmt::format("{}", fmt::join(several, ",")), "f");
  EXPECT_EQ(starts("f/nfe-04"), several);
  expect_failure("distill " + vp + "--pairs vp --nfe 4 --init euler/uniform-x -o c", 2,
                 "uniform-t");
  expect_failure("distill " + vp + "--pairs vp --nfe 4 --init euler@fmot -o c", 2,
                 "did you mean 'fm-ot'?");
}

TEST_F(DistillCommand, OneRunAtATimeWritesToAFolder) {
  const std::string arguments = "--nfe 4 --iterations 2 --init euler -o run";
  ASSERT_EQ(run(command(arguments)).code, 0);
  {
    const FolderLock other(folder_ / "run");
    expect_failure(command(arguments + " --resume"), 3, "another run is writing here");
  }
  EXPECT_EQ(run(command(arguments + " --resume")).code, 0);
}

TEST_F(DistillCommand, MakesItsOwnPairsWhereNoneAreGiven) {
  const std::string small = "distill --model analytic:mixture:dim=4,components=2 --nfe 2 ";
  const auto fitted = run(small + "--iterations 2 -o run");
  ASSERT_EQ(fitted.code, 0) << fitted.err;
  EXPECT_NE(
      fitted.out.find("on 32 held-out pairs (they chose among iterates too), distilled on 96"),
      std::string::npos);
  EXPECT_NE(fitted.err.find("2 NFE: "), std::string::npos) << fitted.err;
  EXPECT_EQ(summary("run/nfe-02")["start"].get<std::string>().substr(0, 4), "fit/");
  const auto outcome = run(small + "--method adam --iterations 2 -o adam");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("520 training and 1024 validation pairs"), std::string::npos);
}

TEST_F(DistillCommand, RefusesWhatDoesNotFit) {
  expect_failure("distill --model analytic:mixture:dim=12 --dtype fp64 --pairs pairs -o x", 3,
                 "another");
  expect_failure(command("--guidance 2 -o x"), 3, "guidance");
  expect_failure(command("--nfe 5 --init midpoint -o x"), 2, "4 or 6");
  expect_failure(command("--family bst --nfe 5 -o x"), 2, "even");
  expect_failure(command("--family bnss -o x"), 2, "did you mean 'bns'?");
  expect_failure(command("--method sgd -o x"), 2, "method");
  expect_failure(command("--times half -o x"), 2, "rounding of times");
  expect_failure(command("--start-scale 2 -o x"), 2, "free or 1");
  expect_failure(command("--family bst --times integer -o x"), 2, "are for bns solvers");
  expect_failure(command("--direct dampng=1 -o x"), 2, "did you mean 'damping'?");
  expect_failure(command("--direct difference=-1 -o x"), 2, "direct needs");
  expect_failure(command("--samples 0 -o x"), 2, "--samples");
  expect_failure(command("--method fit -o x"), 3, "leave out --pairs");
  expect_failure("distill " + kMixtureWithClasses + "--max-pairs 9 -o x", 2, "write --samples");
  expect_failure("distill " + kMixtureWithClasses + "--method fit --family bst -o x", 2,
                 "the fit makes bns solvers");
  expect_failure(command("--init euler@sigma0=-1 -o x"), 2, "must be positive");
  expect_failure(command("--sigma0 2 -o x"), 2, "--init midpoint@sigma0=2");
  expect_failure(command("--adam-decay cosine -o x"), 2, "5e-4, polynomially");
  expect_failure(command("--seed 3 -o x"), 2, "--seed is gone");
  expect_failure(command("--cond class=1 -o x"), 2, "brings its own conditions");
  expect_failure(command("--space decoded -o x"), 2, "decoder");
  expect_failure("distill " + kMixtureWithClasses + "--pairs absent -o x", 3, "absent");
}

TEST_F(DistillCommand, PadsASolverOfFewerEvaluations) {
  ASSERT_EQ(run(command("--nfe 4 --iterations 6 -o four")).code, 0);
  ASSERT_EQ(run(command("--nfe 6 --iterations 6 --init four/bns.solver.json -o six")).code, 0);
  EXPECT_NEAR(summary("six/nfe-06")["initial_psnr"].get<double>(),
              summary("four/nfe-04")["validation_psnr"].get<double>(), 1e-6);
  expect_failure(command("--nfe 2 --init four/bns.solver.json -o x"), 2, "more than --nfe 2");
  // Of several, the one with the most evaluations that are not too many.
  ASSERT_EQ(run("solver euler --nfe 2,4,8 -o e.solver.json").code, 0);
  ASSERT_EQ(run(command("--nfe 6 --iterations 1 --init e.solver.json -o e")).code, 0);
  ASSERT_EQ(run(command("--nfe 4 --iterations 1 --init euler -o euler")).code, 0);
  EXPECT_NEAR(summary("e/nfe-06")["initial_psnr"].get<double>(),
              summary("euler/nfe-04")["initial_psnr"].get<double>(), 0.01);
}

TEST_F(DistillCommand, DamagedFilesOfARunAreNamed) {
  const std::string rest = "--nfe 4 --iterations 3 -o run --resume";
  ASSERT_EQ(run(command(rest)).code, 0);
  json ended = summary("run/nfe-04");
  ended["ended"] = "diverged";
  write_file_atomically(folder_ / "run/nfe-04/summary.json", ended.dump());
  expect_failure(command(rest), 5, "has the best solver before that");
  write_file_atomically(folder_ / "run/nfe-04/summary.json", "{");
  expect_failure(command(rest), 3, "summary.json");
}

TEST_F(DistillCommand, KeepsWhatPipelinesAskFor) {
  const auto outcome =
      run(command("--nfe 4 --start-scale 1 --times integer:50 --iterations 2 -o held"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const NsSolver solver = read_solver_file(folder_ / "held/bns.solver.json").at(4);
  EXPECT_EQ(solver.start_scale, 1);
  for (const double t : solver.times) EXPECT_NEAR(50 * t, std::round(50 * t), 1e-9);
}

TEST_F(DistillCommand, KeepsToABudgetOfCalls) {
  for (const int64_t calls : {100, 4000}) {
    const std::string folder = fmt::format("calls-{}", calls);
    const auto outcome =
        run(fmt::format("distill {}--nfe 4 --calls {} -o {}", kMixtureWithClasses, calls, folder));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json ended = summary(folder + "/nfe-04");
    EXPECT_LE(ended["calls"].get<int64_t>(), calls);
    EXPECT_GT(ended["calls"].get<int64_t>(), calls / 3);
    EXPECT_GE(ended["reference_forwards"].get<int64_t>(), 30);
    EXPECT_NE(outcome.out.find("for the model's own samples"), std::string::npos) << outcome.out;
  }
  expect_failure("distill " + kMixtureWithClasses + "--nfe 4 --calls 15 -o no", 2, "at least 16");
  expect_failure("distill " + kMixtureWithClasses + "--calls 900 --tolerance 1e-4 -o no", 2,
                 "leave out --tolerance");
  expect_failure("distill " + kMixtureWithClasses + "--calls 900 --method adam -o no", 2, "adam");
}

TEST_F(DistillCommand, WarnsOfFewPairs) {
  const auto outcome =
      run(command("--nfe 8 --method adam --samples 10 --train-batch 10 --iterations 2 -o x"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("10 training pairs are few for"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace bespoke
