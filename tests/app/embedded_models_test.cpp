// The models that come with the program, and the reports made of them.

#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/file.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

class EmbeddedModel : public CommandLine {
 protected:
  // A solver that says it was distilled, at little cost.
  void distill_quickly() {
    ASSERT_EQ(
        run("pairs --model cifar10-fm-ot --count 4 --validation 2 --tolerance 1e-2 -o pairs").code,
        0);
    const Outcome outcome = run(
        "distill --model cifar10-fm-ot --pairs pairs --nfe 2 --init euler --iterations 1 -o run");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  const std::string compare_ =
      "compare --model cifar10-fm-ot --cond y=0-9 --count 2 --tolerance 1e-2 --nfe 2,4 "
      "--equal-up-to 0 "
      "--solvers run/bns.solver.json,euler ";
};

TEST_F(EmbeddedModel, IsWhatItsCardSays) {
  for (const std::string name : {"cifar10-fm-ot", "cifar10-eps-vp", "emoji-t2i"}) {
    const Outcome outcome = run("check " + name + " --count 2");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("The card fits"), std::string::npos) << outcome.out;
  }
}

TEST_F(EmbeddedModel, DrawsWhatItIsTold) {
  const auto image = [this](const std::string& prompt) {
    const Outcome outcome = run("sample --model emoji-t2i --prompt '" + prompt +
                                "' --guidance 2 --solver euler --nfe 8 --count 1 -o out");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_png(folder_ / "out/000000.png").image.to(torch::kDouble);
  };
  // Its upper right corner is of the colour that is named: red, green, blue.
  const auto corner = [](const torch::Tensor& x) {
    return x.slice(1, 0, 8).slice(2, 56).mean({1, 2});
  };
  const torch::Tensor red = corner(image("a small key at the bottom left on red"));
  EXPECT_GT(red[0].item<double>(), 2 * red[1].item<double>());
  const torch::Tensor blue = corner(image("a small key at the bottom left on a blue background"));
  EXPECT_GT(blue[2].item<double>(), 2 * blue[0].item<double>());
  const Outcome unknown = run("sample --model emoji-t2i --prompt 'a dragoon on red' -o x");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean 'dragon'?"), std::string::npos) << unknown.err;
}

TEST_F(EmbeddedModel, OneByOneNoBitDependsOnTheBatch) {
  for (const std::string solver : {"midpoint --nfe 4", "reference --tolerance 1e-2"}) {
    const auto drawn = [&](const std::string& how) {
      const Outcome outcome = run("sample --model cifar10-fm-ot --cond y=3 --one-by-one --solver " +
                                  solver + " " + how + " -o out");
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      return read_safetensors(folder_ / "out/samples.safetensors").tensors.at("samples");
    };
    const torch::Tensor all = drawn("--count 6 --batch 4");
    EXPECT_TRUE(torch::equal(drawn("--count 4 --batch 64"), all.slice(0, 0, 4))) << solver;
    EXPECT_TRUE(torch::equal(drawn("--count 6 --batch 1"), all)) << solver;
    const torch::Tensor forward = drawn("--seeds 3,8,5"), back = drawn("--seeds 5,3,8,9");
    EXPECT_TRUE(torch::equal(forward[0], back[1])) << solver;
    EXPECT_TRUE(torch::equal(forward[2], back[0])) << solver;
  }
}

TEST_F(EmbeddedModel, IsNotWhatAnotherCardSays) {
  const auto check = [this](const std::string& name, const nlohmann::json& change) {
    const std::filesystem::path models = BESPOKE_SOURCE_DIR "/models";
    auto card = nlohmann::json::parse(read_file(models / (name + ".json")));
    card["weights"] = (models / (name + ".pt")).string();
    card.merge_patch(change);
    write_file_atomically(folder_ / "wrong.json", card.dump());
    return run("check wrong.json --count 2");
  };
  const Outcome flow = check("cifar10-fm-ot", {{"prediction", "data"}});
  EXPECT_EQ(flow.code, 3) << flow.out;
  EXPECT_NE(flow.err.find("prediction \"velocity\""), std::string::npos) << flow.err;
  const Outcome noise = check("cifar10-eps-vp", {{"schedule", {{"name", "cosine"}}}});
  EXPECT_NE(noise.err.find("schedule \"vp\""), std::string::npos) << noise.err;
}

TEST_F(EmbeddedModel, IsComparedInAReport) {
  distill_quickly();
  const Outcome outcome = run(compare_ + "--report out/report.html");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("bns.solver.json reach"), std::string::npos) << outcome.out;
  const std::string page = read_file(folder_ / "out/report.html");
  for (const std::string expected : {"cifar10-fm-ot", "<span>distill</span> <span>--model</span>",
                                     "<span>out/report.html</span>", "data:image/png;base64,",
                                     "1 iterations from euler", "Validation PSNR"}) {
    EXPECT_NE(page.find(expected), std::string::npos) << expected;
  }
  expect_failure(compare_ + "--report out/report.html", 2, "--force");
  EXPECT_EQ(run(compare_ + "--report out/report.html --force").code, 0);
}

TEST_F(EmbeddedModel, IsComparedInPictures) {
  distill_quickly();
  const Outcome outcome = run(compare_ + "--svg out/pictures");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string picture : {"psnr.svg", "calls.svg", "samples.svg", "times-bns-nfe2.svg",
                                    "coefficients-bns-nfe2.svg"}) {
    EXPECT_TRUE(is_file(folder_ / "out/pictures" / picture)) << picture;
  }
  expect_failure(compare_ + "--svg out/pictures", 2, "--force");
  expect_failure(compare_ + "--png out/pictures", 2, "write --svg FOLDER");
}

TEST_F(EmbeddedModel, HasFeaturesThatNeedMoreSamplesThanTheyAre) {
  expect_failure(
      "compare --model cifar10-fm-ot --count 8 --nfe 2 --solvers euler "
      "--features cifar10-features",
      3, "65");
}

TEST_F(EmbeddedModel, IsNotTakenForAFile) {
  expect_failure("compare --model cifar10-fm --nfe 2", 3, "cifar10-fm");
  expect_failure("demo --model analytic:mixture", 2, "cifar10-fm-ot");
  expect_failure("demo --few --model emoji-t2i", 2, "images by class");
}

TEST_F(EmbeddedModel, DemoLeavesAnEarlierOneAlone) {
  make_folders(folder_ / "demo");
  write_file_atomically(folder_ / "demo/report.html", "mine");
  expect_failure("demo", 2, "choose another -o");
  EXPECT_EQ(read_file(folder_ / "demo/report.html"), "mine");
}

}  // namespace
}  // namespace bespoke
