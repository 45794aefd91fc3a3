// `bespoke pairs` as a user meets it.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "app/command_line.h"
#include "bespoke/base/file.h"
#include "bespoke/recipe/pair_store.h"
#include "bespoke/solver/solver_file.h"
#include "npy_file.h"

namespace bespoke {

using namespace detail;
namespace {

constexpr char kModel[] = "--model analytic:mixture:dim=4,classes=4 ";

class PairsCommand : public CommandLine {
 protected:
  // Whether two folders hold the same files with the same bytes.
  bool same_folders(const std::string& left, const std::string& right) const {
    const std::string command =
        "cd '" + folder_.string() + "' && diff -r " + left + " " + right + " >diff.txt 2>&1";
    return std::system(command.c_str()) == 0;
  }

  int files_in(const std::string& name) const {
    const std::string command =
        "cd '" + folder_.string() + "' && exit $(ls '" + name + "' 2>/dev/null | wc -l)";
    return WEXITSTATUS(std::system(command.c_str()));
  }

  Pairs read(const std::string& name, Split split) const {
    const PairManifest manifest = read_pair_manifest(folder_ / name);
    return read_pairs(folder_ / name, split, manifest.plan.owner);
  }
};

TEST_F(PairsCommand, MakesBothSplitsAndSaysSo) {
  const std::string command =
      std::string("pairs ") + kModel + "--guidance 1 --count 12 --validation 7 --shard 5 -o a";
  const Outcome outcome = run(command);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const auto& text : {"guidance w = 1", "class uniform over 4 classes", "evaluations each",
                           "12 training and 7 validation", "tolerance 1e-05", "in a: 19 of 19"}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
  }
  EXPECT_EQ(read("a", Split::train).x1.size(0), 12);
  EXPECT_EQ(read("a", Split::validation).x1.size(0), 7);
  EXPECT_EQ(files_in("a"), 1 + 3 + 2);
  const Outcome again = run(command);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("finished before, nothing to do"), std::string::npos) << again.out;
}

TEST_F(PairsCommand, TheFolderDoesNotDependOnBatchOrThreads) {
  const std::string command =
      std::string("pairs ") + kModel + "--guidance 1 --count 20 --validation 9 --shard 8 ";
  ASSERT_EQ(run(command + "--batch 8 --threads 1 -o a").code, 0);
  ASSERT_EQ(run(command + "--batch 3 --threads 2 -o b").code, 0);
  EXPECT_TRUE(same_folders("a", "b")) << read_file(folder_ / "diff.txt");
}

TEST_F(PairsCommand, DrawsEveryClassAboutEquallyOften) {
  ASSERT_EQ(run(std::string("pairs ") + kModel + "--count 400 --validation 400 --tolerance 1e-2 " +
                "-o a")
                .code,
            0);
  const torch::Tensor train = read("a", Split::train).conditions.at("class");
  const torch::Tensor validation = read("a", Split::validation).conditions.at("class");
  for (const auto& classes : {train, validation}) {
    EXPECT_GE(classes.min().item<int64_t>(), 0);
    EXPECT_LE(classes.max().item<int64_t>(), 3) << "4 is the class that stands for none";
    for (int64_t k = 0; k < 4; ++k) {
      // 100 expected, with a standard deviation of 8.7.
      EXPECT_NEAR(classes.eq(k).sum().item<double>(), 100, 45) << k;
    }
  }
  EXPECT_FALSE(torch::equal(train, validation));
}

TEST_F(PairsCommand, AClassDependsOnlyOnItsSeedAndNumber) {
  const std::string command = std::string("pairs ") + kModel + "--tolerance 1e-2 --validation 1 ";
  ASSERT_EQ(run(command + "--count 30 -o a").code, 0);
  ASSERT_EQ(run(command + "--count 50 --shard 7 --cond class=random -o b").code, 0);
  ASSERT_EQ(run(command + "--count 30 --seed 8 -o c").code, 0);
  const torch::Tensor few = read("a", Split::train).conditions.at("class");
  const torch::Tensor more = read("b", Split::train).conditions.at("class");
  EXPECT_TRUE(torch::equal(few, more.slice(0, 0, 30)));
  EXPECT_FALSE(torch::equal(few, read("c", Split::train).conditions.at("class")));
}

TEST_F(PairsCommand, DealsOutListsAndFilesInTurn) {
  const std::string command = std::string("pairs ") + kModel + "--count 7 --shard 2 ";
  ASSERT_EQ(run(command + "--cond class=1-3 --validation 2 -o a").code, 0);
  const auto in_turn = torch::tensor({1, 2, 3, 1, 2, 3, 1}, torch::kLong);
  EXPECT_TRUE(torch::equal(read("a", Split::train).conditions.at("class"), in_turn));
  EXPECT_TRUE(
      torch::equal(read("a", Split::validation).conditions.at("class"), in_turn.slice(0, 0, 2)));
  testing::write_npy(folder_ / "c.npy", torch::tensor({1, 2, 3}, torch::kLong));
  ASSERT_EQ(run(command + "--cond class=c.npy --validation 2 -o b").code, 0);
  EXPECT_TRUE(torch::equal(read("b", Split::train).conditions.at("class"), in_turn));
  testing::write_npy(folder_ / "c.npy", torch::tensor({3, 2, 1}, torch::kLong));
  expect_failure(command + "--cond class=c.npy --validation 2 -o b", 3, "conditions is");
}

TEST_F(PairsCommand, RefusesAFolderOfOtherPairsAndSaysWhatDiffers) {
  const std::string counts = "--count 3 --validation 2 -o a ";
  const std::string model = kModel;
  ASSERT_EQ(run("pairs " + model + "--guidance 1 " + counts).code, 0);
  const std::string before = read_file(folder_ / "a/manifest.json");
  expect_failure("pairs " + model + counts, 3, "guidance is 1.0 there and 0.0 here");
  expect_failure("pairs " + model + "--guidance 1 --tolerance 0.001 " + counts, 3,
                 "tolerance.relative is 1e-05 there and 0.001 here");
  expect_failure("pairs " + model + "--guidance 1 --seed 4 " + counts, 3,
                 "train.seed is 1 there and 4 here");
  expect_failure("pairs " + model + "--guidance 1 --dtype fp64 " + counts, 3,
                 "dtype is \"float32\" there and \"float64\" here");
  expect_failure("pairs " + model + "--guidance 1 --dtype tf32 " + counts, 3,
                 "dtype is \"float32\" there and \"tf32\" here");
  expect_failure("pairs --model analytic:mixture:dim=4,classes=4,seed=1 --guidance 1 " + counts, 3,
                 "model.name is \"analytic:mixture:dim=4,classes=4\" there and "
                 "\"analytic:mixture:dim=4,classes=4,seed=1\" here");
  EXPECT_EQ(read_file(folder_ / "a/manifest.json"), before);
}

TEST_F(PairsCommand, TrajectoriesMakeAFolderAsGoodAsPairsInMemory) {
  const std::string model = kModel, counts = "--count 24 --validation 32 --tolerance 1e-5 ";
  ASSERT_EQ(run("pairs " + model + counts + "--trajectories -o a").code, 0);
  EXPECT_EQ(read_pair_manifest(folder_ / "a").plan.trajectories, 24)
      << "32, or as many as there are";
  ASSERT_EQ(run("pairs " + model + counts + "-o bare").code, 0);
  const auto solver = [&](const std::string& how, const std::string& name) {
    const Outcome outcome =
        run("distill " + model + "--nfe 4 --iterations 2 " + how + " -o " + name);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_solver_file(folder_ / name / "bns.solver.json").at(4);
  };
  for (const std::string method : {"fit", "direct"}) {
    const std::string by = "--method " + method;
    const NsSolver in_memory = solver(by + " --samples 24", method + "-memory");
    EXPECT_TRUE(solver(by + " --pairs a", method + "-folder") == in_memory) << method;
  }
  expect_failure("distill " + model + "--nfe 4 --method fit --pairs bare -o x", 3,
                 "bare has no trajectories, which --method fit needs");
  expect_failure("distill " + model + "--nfe 4 --pairs a --tolerance 1e-3 -o x", 2,
                 "--pairs brings its own tolerance");
  expect_failure("pairs " + model + counts + "--trajectories 25 -o x", 2, "there are 24 pairs");
  expect_failure("pairs " + model + counts + "--trajectories few -o x", 2, "--trajectories");
}

TEST_F(PairsCommand, UsageErrorsSayWhatToDo) {
  expect_failure("pairs", 2, "--output");
  expect_failure("pairs --count 0 -o x", 2, "at least 1 is needed");
  expect_failure("pairs --validation=-1 -o x", 2, "-1 validation pairs");
  expect_failure("pairs --tolerance 0 -o x", 2, "must be positive");
  expect_failure("pairs --seed -3 -o x", 2, "must not be negative");
  expect_failure("pairs --seed 5 --validation-seed 5 -o x", 2, "different seeds");
  expect_failure("pairs --shard 0 -o x", 2, "at least 1 pair");
  expect_failure("pairs --cond y=random -o x", 2, "has no conditions");
  expect_failure(std::string("pairs ") + kModel + "--cond clas=1 -o x", 2, "'class'");
  expect_failure(std::string("pairs ") + kModel + "--cond class=9 -o x", 3, "out of range");
  expect_failure(std::string("pairs ") + kModel + "--guidance 1 --cond class=4 -o x", 2,
                 "--guidance needs a condition");
  EXPECT_FALSE(fs::exists(folder_ / "x"));
}

TEST_F(PairsCommand, AnInterruptedRunIsContinuedToTheSameBytes) {
  const std::string command =
      "pairs --model analytic:mixture:dim=16 --tolerance 1e-9 --count 304 --validation 16 --shard "
      "4 ";
  ASSERT_EQ(run(command + "-o whole").code, 0);
  // Stopped as soon as a few of its 80 shards are there, by the end of its terminal.
  const Outcome stopped =
      signal_when("HUP", "[ $(ls broken 2>/dev/null | wc -l) -ge 4 ]", command + "-o broken");
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_NE(stopped.err.find("run the same command again to continue"), std::string::npos);
  EXPECT_LT(files_in("broken"), 1 + 80);
  EXPECT_FALSE(read_pair_manifest(folder_ / "broken").evaluations.has_value());
  const Outcome rest = run(command + "-o broken");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.out.find("320 of 320"), std::string::npos) << "it began again from nothing";
  EXPECT_TRUE(same_folders("whole", "broken")) << read_file(folder_ / "diff.txt");
}

}  // namespace
}  // namespace bespoke
