// A user's own model on the command line: images, latents, audio, conditions, checking.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bespoke/base/file.h"
#include "bespoke/io/image.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/io/wav.h"
#include "bespoke/model/compiled_package.h"
#include "command_line.h"
#include "npy_file.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;

class BringModel : public CommandLine {
 protected:
  // The exact velocity of a Gaussian of deviation 0.5 about `mean` (an expression in x's shape).
  void save_gaussian(const std::string& arguments, const std::string& mean) const {
    save("weights.pt", "def forward(self, x, t" + arguments + R"():
    s = t.reshape([-1] + [1] * (x.dim() - 1))
    m = )" + mean + R"(
    v = 0.25 * s * s + (1.0 - s) * (1.0 - s)
    D = m + 0.25 * s / v * (x - s * m)
    return (D - x) / torch.clamp(1.0 - s, min=1e-3)
)");
  }

  void save(const std::string& name, const std::string& source) const {
    torch::jit::Module module("network");
    module.define(source);
    module.save((folder_ / name).string());
  }

  void write_card(const json& changes) const {
    json card = {{"format", "torchscript"},         {"weights", "weights.pt"},
                 {"sample_shape", {3, 4, 4}},       {"prediction", "velocity"},
                 {"schedule", {{"name", "fm-ot"}}}, {"time", {{"convention", "noise-to-data"}}}};
    card.update(changes);
    write_file_atomically(folder_ / "model.json", card.dump());
  }

  void expect_success(const std::string& arguments) const {
    const auto outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  torch::Tensor samples(const std::string& folder, const std::string& name = "samples") const {
    return read_safetensors(folder_ / folder / "samples.safetensors").tensors.at(name);
  }

  TensorFile odd_;  // of conditions
};

const std::string kSample = "sample --model model.json --solver midpoint --nfe 8 ";

TEST_F(BringModel, SaysWhereCompiledModelsCannotRun) {
  if (package_opener()) GTEST_SKIP() << "this LibTorch runs packages";
  write_file_atomically(folder_ / "weights.pt2", "compiled");
  write_card({{"format", "aotinductor"}, {"weights", "weights.pt2"}});
  const auto outcome = run(kSample + "-o out");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("weights.pt2 is compiled, which needs LibTorch 2.9 or later"),
            std::string::npos)
      << outcome.err;
}

TEST_F(BringModel, WritesImagesWithTheirParameters) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card(json::object());
  expect_success(kSample + "--seeds 5-7 -o out");
  const auto file = read_png(folder_ / "out/seed-000006.png");
  EXPECT_TRUE(torch::equal(file.image, to_bytes(samples("out")[1], -1, 1)));
  const auto has = [&](const std::string& key, const std::string& part) {
    for (const auto& [name, value] : file.text) {
      if (name == key && value.find(part) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("solver", "midpoint"));
  EXPECT_TRUE(has("model", "guidance w = 0 (guidance_scale 1)"));
  EXPECT_TRUE(has("sample", "seed-000006"));
  EXPECT_EQ(read_png(folder_ / "out/grid.png").image.size(0), 3);
  // Sample i of --seeds is sample 0 of its seed.
  expect_success(kSample + "--seed 6 --count 1 -o one");
  EXPECT_TRUE(torch::equal(samples("one")[0], samples("out")[1]));
}

TEST_F(BringModel, StartsFromNumpysNoise) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card(json::object());
  testing::write_npy(folder_ / "noise.npy", torch::zeros({2, 3, 4, 4}));
  expect_success(kSample + "--noise noise.npy -o out");
  EXPECT_LT(samples("out").abs().max().item<double>(), 1e-6);
  expect_failure(kSample + "--noise noise.npy --seed 3 -o out", 2, "leave out --seed");
  testing::write_npy(folder_ / "noise.npy", torch::zeros({2, 3, 4}));
  expect_failure(kSample + "--noise noise.npy -o out", 3, "does not fit");
}

TEST_F(BringModel, WritesLatentsAndWhatTheyDecodeTo) {
  save_gaussian("", "torch.zeros_like(x)");
  save("decoder.pt",
       "def forward(self, z):\n    return torch.tanh(z.repeat_interleave(2, 2)).clone()\n");
  write_card(
      {{"decoder", {{"weights", "decoder.pt"}, {"scale", 0.5}, {"sample_shape", {3, 8, 4}}}}});
  expect_success(kSample + "--count 2 -o out");
  const auto expected = torch::tanh((samples("out") / 0.5).repeat_interleave(2, 2));
  EXPECT_TRUE(torch::allclose(samples("out", "decoded"), expected));
  EXPECT_TRUE(
      torch::equal(read_png(folder_ / "out/000001.png").image, to_bytes(expected[1], -1, 1)));
  expect_success(kSample + "--count 2 --space sample -o latent");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "latent/grid.png"));
  const std::string compare = "compare --model model.json --solvers euler --nfe 4 --count 4 ";
  const auto latent = run(compare), decoded = run(compare + "--space decoded");
  EXPECT_NE(latent.out.find("sample space"), std::string::npos);
  EXPECT_NE(decoded.out.find("decoded space"), std::string::npos);
  EXPECT_NE(latent.out.substr(latent.out.find("euler")),
            decoded.out.substr(decoded.out.find("euler")));
}

TEST_F(BringModel, WritesAudio) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card({{"sample_shape", {1, 100}}, {"sample_rate", 8000}});
  expect_success(kSample + "--count 2 -o out");
  const WavFile file = read_wav(folder_ / "out/000001.wav");
  EXPECT_EQ(file.sample_rate, 8000);
  EXPECT_LT((file.audio - samples("out")[1].clamp(-1, 1)).abs().max().item<double>(), 1e-4);
}

TEST_F(BringModel, DistilsAudioAndReportsItsSnr) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card({{"sample_shape", {1, 50}}, {"sample_rate", 8000}});
  expect_success("pairs --model model.json --count 24 --validation 16 -o pairs");
  expect_success(
      "distill --model model.json --pairs pairs --nfe 2 --iterations 3 --train-batch 16 -o run");
  const auto summary = json::parse(read_file(folder_ / "run/nfe-02/summary.json"));
  // Samples of deviation 0.5: the signal is 20 log10(2 / 0.5) dB below the peak-to-peak range.
  EXPECT_NEAR(summary["validation_psnr"].get<double>() - summary["validation_snr"].get<double>(),
              12.04, 0.7);
}

TEST_F(BringModel, TakesTensorConditionsFromFiles) {
  save_gaussian(", c", "c.sum(1).reshape([-1, 1, 1, 1]) * torch.ones_like(x)");
  write_card({{"conditions", {{{"name", "c"}, {"shape", {2}}, {"null", "zeros"}}}}});
  const auto rows = torch::tensor({{0.1, 0.2}, {0.3, 0.4}});
  testing::write_npy(folder_ / "c.npy", rows);
  write_safetensors(folder_ / "c.safetensors", {{{"a", rows[1]}, {"b", rows}}, {}});
  const std::string command = kSample + "--count 4 ";
  expect_success(command + "--cond c=c.npy -o rows");
  expect_success(command + "--cond c=c.safetensors:a -o shared");
  EXPECT_TRUE(torch::equal(samples("rows", "condition.c"), torch::cat({rows, rows})));
  EXPECT_TRUE(torch::equal(samples("rows")[1], samples("shared")[1]));
  EXPECT_FALSE(torch::equal(samples("rows")[0], samples("shared")[0]));
  expect_success(command + "--cond c=c.npy --guidance 1 -o w");
  expect_success(command + "--cond c=c.npy --guidance-scale 2 -o scale");
  EXPECT_TRUE(torch::equal(samples("w"), samples("scale")));
  EXPECT_FALSE(torch::equal(samples("w"), samples("rows")));
  expect_failure(command + "--cond c=c.safetensors:x -o x", 3, "it holds: a, b");
  expect_failure(command + "--cond c=3 -o x", 2, "is a tensor");
  expect_failure(command + "--cond c=c.npy --cond c=c.npy -o x", 2, "given twice");
  expect_failure(kSample + "--seeds 1,2,1 -o x", 2, "--seeds has 1 twice");
  expect_failure(command + "--guidance 2 -o x", 2, "--guidance needs a condition");
  expect_failure(command + "--guidance 2 --guidance-scale 3 -o x", 2, "give one");
  testing::write_npy(folder_ / "c.npy", torch::zeros({2, 3}));
  expect_failure(command + "--cond c=c.npy -o x", 3, "does not fit the condition c");
}

// Numbers of any width stand for themselves; what is no number, or of another kind, is refused.
TEST_F(BringModel, TakesConditionsOfOddTypesAsTheyAreOrRefusesThem) {
  save_gaussian(", c, y", "(c.sum(1) + y.to(c.dtype)).reshape([-1, 1, 1, 1]) * torch.ones_like(x)");
  write_card({{"conditions",
               {{{"name", "c"}, {"shape", {2}}}, {{"name", "y"}, {"classes", 3}, {"null", 3}}}}});
  const auto command = [&](const std::string& c, const std::string& y) {
    write_safetensors(folder_ / "odd.safetensors", odd_);
    return kSample + "--count 2 --cond c=odd.safetensors:" + c + " --cond y=odd.safetensors:" + y;
  };
  const auto row = torch::tensor({{0.5, 0.25}, {0.125, 1.0}}), nan = row.clone();
  nan[1][0] = NAN;
  odd_.tensors = {{"half", row.to(torch::kHalf)},
                  {"bfloat", row.to(torch::kBFloat16)},
                  {"float", row.to(torch::kFloat)},
                  {"double", row.to(torch::kDouble)},
                  {"nan", nan},
                  {"ints", torch::ones({2, 2}, torch::kInt)},
                  {"none", torch::zeros({0, 2})},
                  {"bytes", torch::tensor({2, 1}, torch::kByte)},
                  {"bools", torch::tensor({true, false})},
                  {"long", torch::tensor({2, 1})},
                  {"short", torch::tensor({2, 1}, torch::kShort)},
                  {"large", torch::tensor({2, 7})}};
  expect_success(command("float", "long") + " -o plain");
  for (const std::string c : {"half", "bfloat", "double"}) {
    expect_success(command(c, "bytes") + " -o " + c);
    EXPECT_TRUE(torch::equal(samples(c), samples("plain"))) << c;
  }
  expect_success(command("float", "short") + " -o short");
  EXPECT_TRUE(torch::equal(samples("short"), samples("plain")));
  expect_success(command("float", "bools") + " -o bools");
  expect_failure(command("nan", "long") + " -o x", 3, "holds NaN or infinity");
  expect_failure(command("ints", "long") + " -o x", 3, "needs floating-point numbers");
  expect_failure(command("none", "long") + " -o x", 3, "does not fit the condition c");
  expect_failure(command("float", "float") + " -o x", 3, "needs integers");
  expect_failure(command("float", "large") + " -o x", 3, "condition y = 7 is out of range");
}

// Of commands other than check, which refuses it.
TEST_F(BringModel, WarnsOfANetworkThatMixesItsBatch) {
  save("weights.pt", "def forward(self, x, t):\n    return x - x.mean(0, keepdim=True)\n");
  write_card(json::object());
  const std::string warning = "warning: model.json: a sample's output changes with those beside it";
  for (const std::string command :
       {"sample --solver euler --nfe 2 --count 2 -o out", "pairs --count 2 --validation 2 -o pairs",
        "compare --solvers euler,midpoint --nfe 2 --count 2 --no-cache",
        "distill --nfe 2 --samples 16 --method fit -o run"}) {
    const Outcome outcome = run(command + " --model model.json");
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_NE(outcome.err.find(warning), std::string::npos) << command << outcome.err;
  }
  const std::string alone = "sample --solver euler --nfe 2 --count 2 --model model.json ";
  EXPECT_EQ(run(alone + "--one-by-one -o a").err, "");
  EXPECT_EQ(run(alone + "--batch 1 -o b").err, "");
  save("weights.pt", "def forward(self, x, t):\n    return -x\n");
  EXPECT_EQ(run(alone + "-o c").err, "");
}

TEST_F(BringModel, TakesACardByItsNameOrAsAnOption) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card(json::object());
  expect_success("check model.json");
  expect_success("check --model model.json");
}

TEST_F(BringModel, NamesADeviceThatIsNotThere) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a CUDA device";
  save_gaussian("", "torch.zeros_like(x)");
  write_card(json::object());
  for (const std::string device : {"cuda", "cuda:1"}) {
    expect_failure(kSample + "--device " + device + " -o out", 4,
                   "no device " + device + ": this machine has 0 CUDA devices; use --device cpu");
  }
}

// There is no ODE to solve, so nothing is drawn, learnt or checked.
TEST_F(BringModel, RefusesANetworkThatDrawsNumbers) {
  save("weights.pt", "def forward(self, x, t):\n    return torch.dropout(x, 0.1, True)\n");
  write_card(json::object());
  for (const std::string command :
       {"sample --model model.json --solver euler --nfe 2 --count 2 -o out",
        "pairs --model model.json --count 2 --validation 2 -o pairs",
        "distill --model model.json --nfe 2 --calls 200 -o run"}) {
    expect_failure(command, 3, "the network answers the same call differently");
  }
  const Outcome checked = run("check model.json");  // which says first what the network is like
  EXPECT_EQ(checked.code, 3);
  EXPECT_NE(checked.err.find("the network answers the same call differently"), std::string::npos);
}

// Also where a budget leaves no calls for a look: what was drawn to learn from shows it.
TEST_F(BringModel, LearningSaysWhatIsOddAboutTheModelsOwnSamples) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card({{"value_range", {-0.1, 0.1}}});
  for (const std::string command :
       {"pairs --count 4 --validation 2 -o pairs",
        "distill --nfe 2 --samples 8 --method fit -o one", "distill --nfe 2 --calls 200 -o two"}) {
    const Outcome outcome = run(command + " --model model.json");
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_NE(outcome.err.find("of their values outside value_range"), std::string::npos)
        << command << outcome.err;
  }
}

TEST_F(BringModel, PairsOfAnotherReadingOfTheNetworkAreRefused) {
  save_gaussian("", "torch.zeros_like(x)");
  write_card(json::object());
  expect_success("pairs --model model.json --count 4 --validation 2 -o pairs");
  write_card({{"time", {{"convention", "data-to-noise"}}}});
  expect_failure("distill --model model.json --pairs pairs --nfe 2 -o run", 3, "time.convention");
}

TEST_F(BringModel, NamesTheSampleAndTimeOfANaN) {
  save("weights.pt", R"(
def forward(self, x, t):
    bad = (x.reshape([x.size(0), -1])[:, :1] > 1e6).reshape([-1, 1, 1, 1])
    return torch.where(bad * (t > 0.3).reshape([-1, 1, 1, 1]), x / 0.0, torch.zeros_like(x))
)");
  write_card(json::object());
  auto noise = torch::zeros({10, 3, 4, 4});
  noise[7].fill_(1e7);
  testing::write_npy(folder_ / "noise.npy", noise);
  const std::string command = "sample --model model.json --solver euler --nfe 4 --noise noise.npy ";
  expect_failure(command + "--batch 3 -o x", 5, "t = 0.5, sample 7)");
  expect_failure(command + "--batch 10 -o x", 5, "t = 0.5, sample 7)");
}

TEST_F(BringModel, ChecksTheCardAgainstTheNetwork) {
  // Values about -0.6 and 0.6 with deviation 0.05, of which a linear guess knows little.
  save("weights.pt", R"(
def forward(self, x, t):
    s = t.reshape([-1, 1, 1, 1])
    n = torch.clamp(1.0 - s, min=1e-4)
    v = 0.0025 * s * s + n * n
    D = (0.0025 * s * x + 0.6 * n * n * torch.tanh(0.6 * s * x / v)) / v
    return (D - x) / n
)");
  write_card(json::object());
  const auto good = run("check model.json");
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_NE(good.out.find("The card fits"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("differentiable in x"), std::string::npos);
  write_card({{"prediction", "noise"}});
  const auto bad = run("check model.json --count 16");
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.err.find("with prediction \"velocity\" its denoising error is"), std::string::npos)
      << bad.err;
  // The same with samples of the data.
  torch::manual_seed(1);
  const auto data =
      1.2 * torch::rand({40, 3, 4, 4}).round() - 0.6 + 0.05 * torch::randn({40, 3, 4, 4});
  testing::write_npy(folder_ / "data.npy", data);
  const auto judged = run("check model.json --data data.npy --count 40");
  EXPECT_EQ(judged.code, 3);
  EXPECT_NE(judged.err.find("on the real samples"), std::string::npos) << judged.err;
  write_card(json::object());
  EXPECT_EQ(run("check model.json --data data.npy").code, 0);
  expect_failure("check model.json --data data.npy --count 41", 3, "has 40 samples");
  testing::write_npy(folder_ / "other.npy", torch::zeros({40, 3, 4, 5}));
  expect_failure("check model.json --data other.npy", 3, "cannot be compared");
  save("weights.pt", "def forward(self, x, t):\n    return x - x.mean(0, keepdim=True)\n");
  write_card(json::object());
  EXPECT_NE(run("check model.json").err.find("changes with the batch"), std::string::npos);
  expect_failure("check analytic:mixture", 2, "check takes a model card");
  expect_failure("check weights.pt", 3, "give the card beside it");
  save("weights.pt", "def forward(self, x, t):\n    return 0.1 * torch.sin(x)\n");
  const auto untrained = run("check model.json");
  EXPECT_EQ(untrained.code, 0);
  EXPECT_NE(untrained.err.find("warning"), std::string::npos) << untrained.err;
  EXPECT_EQ(untrained.out.find("The card fits"), std::string::npos) << untrained.out;
}

}  // namespace
}  // namespace bespoke
