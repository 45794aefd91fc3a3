// A range of guidance on the command line: pairs, distillation, sampling and comparison.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "bespoke/base/file.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/recipe/pair_store.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;

const std::string kGuidedModel =
    "--model analytic:mixture:dim=8,classes=3 --dtype fp64 --threads 1 ";

class GuidanceRangeCommand : public CommandLine {
 protected:
  TensorFile samples(const std::string& folder) const {
    return read_safetensors(folder_ / folder / "samples.safetensors");
  }
};

TEST_F(GuidanceRangeCommand, SamplesHaveWeightsOfTheirOwn) {
  const std::string sample =
      "sample " + kGuidedModel + "--cond class=1 --solver midpoint --nfe 8 --seed 3 ";
  ASSERT_EQ(run(sample + "--guidance 0.5-3 --count 6 -o a").code, 0);
  ASSERT_EQ(run(sample + "--guidance-scale 1.5-4 --count 6 --batch 4 -o b").code, 0);
  EXPECT_EQ(read_file(folder_ / "a/samples.safetensors"),
            read_file(folder_ / "b/samples.safetensors"));
  const TensorFile all = samples("a");
  const torch::Tensor w = all.tensors.at(std::string("condition.") + kGuidanceCondition);
  ASSERT_EQ(w.size(0), 6);
  // Each is what that weight alone would have drawn.
  for (const int64_t i : {0, 3, 5}) {
    const std::string folder = "alone" + std::to_string(i);
    ASSERT_EQ(
        run(sample + fmt::format("--guidance {} --count 6 -o {}", w[i].item<double>(), folder))
            .code,
        0);
    EXPECT_TRUE(
        torch::equal(samples(folder).tensors.at("samples")[i], all.tensors.at("samples")[i]));
  }
  expect_failure("sample " + kGuidedModel + "--guidance 0-4 -o c", 2, "needs a condition");
  expect_failure(sample + "--guidance 4-0 -o c", 2, "a range that rises");
}

TEST_F(GuidanceRangeCommand, PairsBelongToTheirRange) {
  const std::string pairs = "pairs " + kGuidedModel + "--count 20 --validation 8 --shard 8 ";
  ASSERT_EQ(run(pairs + "--guidance 0-4 -o p").code, 0);
  ASSERT_EQ(run(pairs + "--guidance-scale 1-5 --batch 3 -o q").code, 0);
  for (const std::string name : {"train-00002.safetensors", "validation-00000.safetensors"}) {
    EXPECT_EQ(read_file(folder_ / "p" / name), read_file(folder_ / "q" / name)) << name;
  }
  const PairManifest manifest = read_pair_manifest(folder_ / "p");
  const Pairs train = read_pairs(folder_ / "p", Split::train, manifest.plan.owner);
  const torch::Tensor w = train.conditions.at(kGuidanceCondition);
  ASSERT_EQ(w.size(0), 20);
  EXPECT_LT(w.min().item<double>(), 0.5);
  EXPECT_GT(w.max().item<double>(), 3.5);
  const std::string distill = "distill " + kGuidedModel + "--pairs p --nfe 4 --iterations 1 ";
  expect_failure(distill + "--guidance 0-3 -o x", 3, "another model or guidance");
  expect_failure(distill + "--guidance 2 -o x", 3, "another model or guidance");
  EXPECT_EQ(run(distill + "--guidance 0-4 -o run").code, 0);
}

TEST_F(GuidanceRangeCommand, OneSolverServesTheRange) {
  const Outcome distilled =
      run("distill " + kGuidedModel + "--guidance 0-4 --nfe 6 --iterations 4 -o run");
  ASSERT_EQ(distilled.code, 0) << distilled.err;
  EXPECT_EQ(read_solver_file(folder_ / "run/bns.solver.json").field.guidance,
            GuidanceWeight(GuidanceRange{0, 4}));
  const std::string sample =
      "sample " + kGuidedModel + "--cond class=0-2 --count 3 --solver run/bns.solver.json -o s ";
  for (const std::string inside : {"--guidance 2.5", "", "--guidance 0-4", "--guidance 1-2"}) {
    EXPECT_EQ(run(sample + inside).err, "") << inside;
  }
  for (const std::string outside : {"--guidance 5", "--guidance=-1", "--guidance 3-5"}) {
    const Outcome outcome = run(sample + outside);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.err.find("was made for guidance w = 0 to 4"), std::string::npos)
        << outside << outcome.err;
  }
  const std::string compare = "compare " + kGuidedModel +
                              "--cond class=0-2 --guidance 0-4 --count 48 --nfe 6 "
                              "--solvers midpoint,run/bns.solver.json ";
  const json rows = json::parse(run(compare + "--format json").out);
  ASSERT_EQ(rows.size(), 2u);
  double sum = 0;
  for (const std::string bin : {"0_to_1", "1_to_2", "2_to_3", "3_to_4"}) {
    const std::string key = "psnr_db_w_" + bin;
    EXPECT_GT(rows[1][key], rows[0][key]) << key;
    // A quarter of the samples: twice the error, about.
    const double error = rows[1]["psnr_error_db_w_" + bin].get<double>();
    EXPECT_GT(error, rows[1]["psnr_error_db"].get<double>() / 2) << key;
    EXPECT_LT(error, 6 * rows[1]["psnr_error_db"].get<double>()) << key;
    sum += rows[1][key].get<double>();
  }
  // The bins hold about as many samples each, so that their mean is about the whole's.
  EXPECT_NEAR(sum / 4, rows[1]["psnr_db"].get<double>(), 1);
  const Outcome table = run(compare);
  EXPECT_NE(table.out.find("PSNR in dB by guidance w"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("3 to 4"), std::string::npos) << table.out;
  EXPECT_EQ(run(compare + "--format csv").out.rfind("solver,nfe,psnr_db,", 0), 0u);
  EXPECT_NE(run(compare + "--format csv").out.find(",psnr_db_w_3_to_4,of"), std::string::npos);
}

TEST_F(GuidanceRangeCommand, ASolverForOneWeightWarnsOfOthers) {
  ASSERT_EQ(run("distill " + kGuidedModel + "--guidance 2 --nfe 2 --iterations 1 -o run").code, 0);
  const std::string sample =
      "sample " + kGuidedModel + "--cond class=0-2 --count 3 --solver run/bns.solver.json -o s ";
  EXPECT_EQ(run(sample + "--guidance 2").err, "");
  for (const std::string other : {"--guidance 3", "--guidance 1-3"}) {
    EXPECT_NE(run(sample + other).err.find("was made for guidance w = 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace bespoke
