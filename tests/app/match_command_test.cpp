// Distilling on the command line where the distribution is matched as well.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <string>
#include <utility>

#include "bespoke/solver/solver_file.h"
#include "command_line.h"

namespace bespoke {
namespace {

class MatchCommand : public CommandLine {
 protected:
  void save_features(const std::string& body) const {
    torch::jit::Module module("network");
    module.define("def forward(self, x):\n    return " + body + "\n");
    module.save((folder_ / "features.pt").string());
  }

  static std::string command(const std::string& rest) {
    return "distill --model analytic:mixture:dim=12,classes=3 --nfe 1 --samples 16 --iterations 2 "
           "--features features.pt " +
           rest;
  }

  NsSolver solver(const std::string& folder) const {
    return read_solver_file(folder_ / folder / "bns.solver.json").at(1);
  }
};

TEST_F(MatchCommand, MatchesClassesApartWhereAsked) {
  save_features("torch.cat([x[:, :4], x[:, 4:8].abs()], 1)");
  for (const auto& [folder, how] :
       {std::pair<std::string, std::string>{"together", ""}, {"apart", "--match-groups class"}}) {
    const auto outcome = run(command("--match-samples 96 " + how + " -o " + folder));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const SolverFile file = read_solver_file(folder_ / folder / "bns.solver.json");
    EXPECT_TRUE(to_json(file.provenance_of(1)).contains("match"));
  }
  EXPECT_FALSE(solver("together") == solver("apart"));
}

TEST_F(MatchCommand, FeaturesThatDoNotFitAreToldInASentence) {
  save_features("x[:, :4]");
  expect_failure(command("--match-samples 4 -o run"), 2, "give --match-samples 5 or more, found 4");
  expect_failure(command("--match-groups colour -o run"), 2, "no such colour");
  save_features("x[:, :4] * 0");
  expect_failure(command("-o constant"), 3, "all 4 features are the same for every one");
  save_features("torch.log(1 - 10 * x[:, :4].abs())");  // of grey it is 0
  expect_failure(command("-o nan"), 3, "the model's own samples cannot be matched: features.pt");
  save_features("x[:, :, 0]");
  expect_failure(command("-o size"), 3, "an input of shape 2x12");
  save_features("x[:, :4]");
  expect_failure(command("--features-size 8 -o images"), 3, "no images and cannot be resized");
}

}  // namespace
}  // namespace bespoke
