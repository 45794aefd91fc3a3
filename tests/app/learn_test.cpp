// Solvers that are learnt from the first samples of `bespoke sample`.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bespoke/io/tensor_file.h"
#include "bespoke/solver/solver_file.h"
#include "command_line.h"

namespace bespoke {
namespace {

class LearnCommand : public CommandLine {
 protected:
  torch::Tensor samples(const std::string& options, const std::string& folder) {
    const auto outcome =
        run("sample --model analytic:mixture:dim=24 --seed 3 " + options + " -o " + folder);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    told_ = outcome.err;
    return read_tensor_file((folder_ / folder / "samples.safetensors").string(), "samples");
  }

  std::string told_;
};

double distance(const torch::Tensor& left, const torch::Tensor& right) {
  return (left - right).pow(2).mean().sqrt().item<double>();
}

TEST_F(LearnCommand, DrawsTheFirstSamplesExactlyAndTheOthersByWhatTheyTeach) {
  const torch::Tensor truth = samples("--solver reference --tolerance 1e-8 --count 20", "truth");
  const torch::Tensor usual = samples("--solver dpm++2m --nfe 6 --count 20", "usual");
  const torch::Tensor learnt =
      samples("--solver learn --learn-from 4 --nfe 6 --count 20", "learnt");
  EXPECT_NE(told_.find("the first 4 of 20 samples by 30 evaluations each"), std::string::npos);
  EXPECT_NE(told_.find("estimated by leaving each out"), std::string::npos) << told_;
  EXPECT_LT(distance(learnt.slice(0, 0, 4), truth.slice(0, 0, 4)), 1e-3);
  EXPECT_LT(distance(learnt.slice(0, 4), truth.slice(0, 4)),
            0.3 * distance(usual.slice(0, 4), truth.slice(0, 4)));
  // The same solver is there for later.
  const NsSolver kept = read_solver_file(folder_ / "learnt/learnt.solver.json").at(6);
  EXPECT_EQ(kept.nfe(), 6);
  const torch::Tensor again =
      samples("--solver learnt/learnt.solver.json --nfe 6 --count 20", "again");
  EXPECT_LT(distance(again.slice(0, 4), learnt.slice(0, 4)), 1e-6);
}

TEST_F(LearnCommand, LearnsNothingWhereThereIsNobodyToLearnFor) {
  samples("--solver learn --count 3", "few");
  EXPECT_NE(told_.find("no others to learn for"), std::string::npos) << told_;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "few/learnt.solver.json"));
}

TEST_F(LearnCommand, RefusesWhatItWouldNotUse) {
  expect_failure("sample --solver learn --grid karras -o no", 2, "--grid is gone");
  expect_failure("sample --solver euler --learn-from 4 -o no", 2, "--solver learn");
  expect_failure("sample --solver learn --nfe 0 -o no", 2, "--nfe");
}

}  // namespace
}  // namespace bespoke
