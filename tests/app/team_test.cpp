// Several processes that mpirun starts.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {
namespace {

const std::string kTeamModel =
    "--model analytic:mixture:dim=24,classes=2 --dtype fp64 --threads 1 ";

class TeamCommand : public CommandLine {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun here";
    if (together(2, "pairs --count 1 --validation 0 -o try").err.find("this build has none") !=
        std::string::npos) {
      GTEST_SKIP() << "built without MPI";
    }
  }

  // By so many processes. Where leaks are looked for, Open MPI's own cannot be told by their names:
  // it has unloaded the plugins that they are of.
  Outcome together(int processes, const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.string() + "' && OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1 " +
        "ASAN_OPTIONS=detect_leaks=0 " +
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --bind-to none -n " +
        std::to_string(processes) + " '" BESPOKE_BINARY "' " + arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), detail::read_file(folder_ / "out.txt"),
            detail::read_file(folder_ / "err.txt")};
  }

  void expect_same_solver(const std::string& left, const std::string& right) const {
    const NsSolver one = read_solver_file(folder_ / left / "bns.solver.json").at();
    const NsSolver other = read_solver_file(folder_ / right / "bns.solver.json").at();
    ASSERT_EQ(one.nfe(), other.nfe());
    for (size_t i = 0; i < one.a.size(); ++i) {
      EXPECT_NEAR(one.times[i], other.times[i], 1e-9);
      EXPECT_NEAR(one.a[i], other.a[i], 1e-9);
      for (size_t j = 0; j <= i; ++j) EXPECT_NEAR(one.b[i][j], other.b[i][j], 1e-9);
    }
  }
};

TEST_F(TeamCommand, FindsWhatOneProcessFinds) {
  const std::string command = "distill " + kTeamModel + "--nfe 4 --samples 16 --iterations 2 -o ";
  ASSERT_EQ(run(command + "one").code, 0);
  for (const int processes : {2, 4}) {
    const std::string folder = "team" + std::to_string(processes);
    const Outcome outcome = together(processes, command + folder);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    // One of them speaks.
    EXPECT_EQ(outcome.out.find("held-out pairs"), outcome.out.rfind("held-out pairs"));
    expect_same_solver("one", folder);
  }
}

TEST_F(TeamCommand, MakesPairsAndComparesAsOneDoes) {
  const std::string pairs = "pairs " + kTeamModel + "--count 6 --validation 3 --shard 4 -o ";
  ASSERT_EQ(run(pairs + "one").code, 0);
  const Outcome made = together(2, pairs + "two");
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* name : {"train-00000.safetensors", "train-00001.safetensors"}) {
    EXPECT_EQ(fs::exists(folder_ / "one" / name), fs::exists(folder_ / "two" / name)) << name;
  }
  const std::string compare = "compare " + kTeamModel +
                              "--solvers euler,best --nfe 4 --count 9 --tolerance 1e-6 --format "
                              "json";
  const auto one = nlohmann::json::parse(run(compare).out);
  const Outcome outcome = together(3, compare);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto three = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(three.size(), one.size());
  for (size_t k = 0; k < one.size(); ++k) {
    EXPECT_NEAR(three[k]["psnr_db"].get<double>(), one[k]["psnr_db"].get<double>(), 1e-9);
  }
}

TEST_F(TeamCommand, GoesOnWithAnotherNumberOfProcesses) {
  const std::string command = "distill " + kTeamModel + "--nfe 3 --samples 16 -o ";
  // With its whole path, so that no process of another test is taken for one of these.
  const std::string folder = (folder_ / "run").string();
  ASSERT_EQ(run(command + "one").code, 0);
  // Killed in the middle: the others end too, and what is stored goes on with three.
  const std::string kill =
      "while ! test -s run/nfe-03/log.jsonl; do sleep 0.02; done; "
      "pkill -KILL -n -f 'distill.*-o " +
      folder + "$'";
  std::system(("cd '" + folder_.string() + "' && (" + kill + ") &").c_str());
  together(2, command + folder);
  const Outcome outcome = together(3, command + folder + " --resume");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_solver("one", "run");
}

TEST_F(TeamCommand, FailsOnceAndForAll) {
  const Outcome usage = together(2, "distill --nfe 0 -o x");
  EXPECT_EQ(usage.code, 2);
  const size_t first = usage.err.find("bespoke: ");
  ASSERT_NE(first, std::string::npos) << usage.err;
  EXPECT_EQ(usage.err.find("bespoke: ", first + 1), std::string::npos) << usage.err;
  const Outcome alone = together(2, "sample --solver euler -o y");
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("work for one process"), std::string::npos) << alone.err;
  EXPECT_FALSE(fs::exists(folder_ / "y"));
}

}  // namespace
}  // namespace bespoke
