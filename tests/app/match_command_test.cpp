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

  static std::string command(const std::string& rest, const std::string& nfe = "1") {
    return "distill --model analytic:mixture:dim=12,classes=3 --samples 16 --iterations 2 "
           "--features features.pt --nfe " +
           nfe + " " + rest;
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
    EXPECT_NE(outcome.out.find("1 NFE: matching statistics took their distance from "),
              std::string::npos)
        << outcome.out;
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
  save_features("torch.log(x[:, :4] * 0 - 1)");
  expect_failure(command("-o always"), 3, "the model's own samples cannot be matched: features.pt");
  save_features("x[:, :, 0]");
  expect_failure(command("-o size"), 3, "an input of shape 2x12");
  save_features("x[:1, :4]");
  expect_failure(command("-o rows"), 3, "one row for each of the 2");
  save_features("x[:, :4]");
  expect_failure(command("--features-size 8 -o images"), 3, "no images and cannot be resized");
}

// The middle of a model's range is no direction, its samples are.
TEST_F(MatchCommand, TakesFeaturesThatAGreySampleHasNot) {
  save_features("x[:, :4] / x.norm(2, [1], True)");
  const auto outcome = run(command("--match-samples 32 -o run"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(MatchCommand, RefusesWhatWouldChangeNothing) {
  save_features("x[:, :4]");
  expect_failure(command("--match samples -o run"), 2,
                 "--match samples looks at no statistics; leave out --features");
  expect_failure(command("-o run", "5-8"), 2,
                 "--features would change nothing: unless --match is both or distribution, "
                 "statistics are matched only where there are --features and up to 4 evaluations");
  const std::string plain = "distill --model analytic:mixture:dim=12,classes=3 --nfe 1 -o run ";
  expect_failure(plain + "--match-samples 64", 2, "--match-samples would change nothing");
  expect_failure(plain + "--match-weight 0.1", 2, "--match-weight would change nothing");
  expect_failure(plain + "--match-groups class", 2, "--match-groups would change nothing");
  expect_failure(plain + "--match both --pairs pairs --match-samples 64", 2,
                 "--pairs brings the samples that are matched; leave out --match-samples");
  for (const std::string weight : {"0", "-1", "inf"}) {
    expect_failure(plain + "--match both --match-weight=" + weight, 2, "--match-weight: must be ");
  }
}

TEST_F(MatchCommand, CountsTwoNetworkCallsAsAnEvaluation) {
  save_features("x[:, :4]");
  const std::string guided =
      "distill --model analytic:mixture:dim=12,classes=3 --guidance 1 --samples 16 "
      "--iterations 1 --features features.pt --match-samples 32 ";
  const auto few = run(guided + "--network-calls 4 -o few");
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_NE(few.out.find("matching statistics took"), std::string::npos) << few.out;
  expect_failure(guided + "--network-calls 10 -o many", 2, "--features would change nothing");
}

}  // namespace
}  // namespace bespoke
