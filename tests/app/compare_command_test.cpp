// compare with features, real data and a cache.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>

#include "bespoke/base/file.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/tensor/noise.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;

class CompareCommand : public CommandLine {
 protected:
  void save_module(const std::string& name, const std::string& source) const {
    torch::jit::Module module("network");
    module.define(source);
    module.save((folder_ / name).string());
  }

  // Four features of the mixture's samples.
  void save_extractor() const {
    save_module("features.pt", "def forward(self, x):\n    return x[:, :4] + x[:, 4:8].abs()\n");
  }

  // A Gaussian of deviation 0.5 over 1 x 4 x 4 images.
  void save_image_model(const json& more = json::object()) const {
    save_module("weights.pt", R"(def forward(self, x, t):
    s = t.reshape([-1, 1, 1, 1])
    v = 0.25 * s * s + (1.0 - s) * (1.0 - s)
    return (0.25 * s / v * x - x) / torch.clamp(1.0 - s, min=1e-3)
)");
    json card = {{"format", "torchscript"},         {"weights", "weights.pt"},
                 {"sample_shape", {1, 4, 4}},       {"prediction", "velocity"},
                 {"schedule", {{"name", "fm-ot"}}}, {"time", {{"convention", "noise-to-data"}}}};
    card.update(more);
    write_file_atomically(folder_ / "model.json", card.dump());
  }

  json figures(const std::string& arguments) const {
    const Outcome outcome = run(arguments + " --format json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? json::parse(outcome.out) : json::array();
  }

  // The files of the cache, one per line.
  std::string cache_listing() const {
    const std::string command = "ls '" + (folder_ / "cache/bespoke").string() + "' >'" +
                                (folder_ / "ls.txt").string() + "'";
    return std::system(command.c_str()) == 0 ? read_file(folder_ / "ls.txt") : "";
  }
};

const std::string kCompare = "compare --solvers euler,rk4 --nfe 4,8 --count 24 ";
const std::string kDistances = "Fréchet distance to the ";  // what tables of them begin with

bool has(const Outcome& outcome, const std::string& part) {
  return outcome.out.find(part) != std::string::npos;
}

TEST_F(CompareCommand, ReportsTellSolversOfOneNameApart) {
  ASSERT_EQ(run("solver midpoint/karras --nfe 4 -o m.solver.json").code, 0);
  ASSERT_EQ(run("solver midpoint --nfe 4 -o same.solver.json").code, 0);
  ASSERT_EQ(run("solver euler --nfe 4 -o e.solver.json").code, 0);
  const Outcome outcome = run(
      "compare --count 4 --nfe 4 --solvers midpoint,m.solver.json,same.solver.json,e.solver.json,"
      "heun/custom:0,0.4,1 --report report.html --no-cache");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_file(folder_ / "report.html");
  EXPECT_NE(page.find("data-name=\"midpoint/karras\""), std::string::npos);
  EXPECT_NE(page.find("data-name=\"same.solver.json\""), std::string::npos);
  EXPECT_NE(page.find("data-name=\"heun/custom:0,0.4,1\""), std::string::npos);
  EXPECT_NE(page.find("data-name=\"midpoint\""), std::string::npos);
  EXPECT_NE(page.find("data-name=\"euler\""), std::string::npos);
  make_folders(folder_ / "folder");
  expect_failure("compare --count 4 --nfe 4 --report folder", 2, "is a folder");
}

// The deviation of the samples' own figures over the root of their number.
TEST_F(CompareCommand, StandardErrorsAreThoseOfTheMeanOverSamples) {
  const std::string one = "compare --no-cache --nfe 4 --solvers midpoint --seeds ";
  for (const std::string figure : {"psnr", "snr"}) {
    std::vector<double> each;
    for (const char* seed : {"0", "1", "2"}) {
      each.push_back(figures(one + seed)[0][figure + "_db"].get<double>());
    }
    const double mean = (each[0] + each[1] + each[2]) / 3;
    double squares = 0;
    for (const double value : each) squares += (value - mean) * (value - mean);
    const json all = figures(one + "0-2");
    EXPECT_NEAR(all[0][figure + "_db"].get<double>(), mean, 1e-3) << figure;
    const double error = all[0][figure + "_error_db"].get<double>();
    EXPECT_GT(error, 0.1) << figure;
    EXPECT_NEAR(error, std::sqrt(squares / 2 / 3), 1e-3) << figure;
  }
}

TEST_F(CompareCommand, ProgramsAreToldWhatTheBestIsBesideTheFigures) {
  const Outcome outcome = run("compare --no-cache --count 2 --nfe 2 --solvers best --format json");
  EXPECT_EQ(json::parse(outcome.out).size(), 1u);
  EXPECT_NE(outcome.err.find("best at 2 NFE is "), std::string::npos) << outcome.err;
}

// Of two distilled solvers the better one is spoken of, by the name of its row, and the other is
// one of those that it is measured by.
TEST_F(CompareCommand, TheSentenceUnderTheTableHoldsForAllRows) {
  for (const auto& [method, name] :
       std::vector<std::pair<std::string, std::string>>{{"ab2", "worse"}, {"rk4", "better"}}) {
    const std::string file = name + "/bns.solver.json";
    make_folders(folder_ / name);
    ASSERT_EQ(run("solver " + method + " --nfe 8 -o " + file).code, 0);
    auto solver = json::parse(read_file(folder_ / file));
    solver["name"] = "bns";
    solver["provenance"] = {{"made_by", "distil"}, {"validation_psnr", 30}};
    write_file_atomically(folder_ / file, solver.dump());
  }
  const std::string all =
      "compare --count 16 --nfe 8 --no-cache "
      "--solvers euler,worse/bns.solver.json,better/bns.solver.json";
  const json rows = figures(all);
  ASSERT_EQ(rows.size(), 3u);
  const auto psnr = [&](size_t row) { return rows[row]["psnr_db"].get<double>(); };
  ASSERT_GT(std::max(psnr(1), psnr(2)), psnr(0));
  const std::string best = rows[psnr(1) > psnr(2) ? 1 : 2]["solver"];
  const Outcome both = run(all);
  EXPECT_TRUE(has(both, "8 evaluations of " + best + " reach")) << both.out;
  const Outcome one =
      run("compare --count 16 --nfe 8 --no-cache --solvers euler,worse/bns.solver.json");
  EXPECT_TRUE(has(one, "8 evaluations of worse/bns.solver.json reach")) << one.out;
  // At 4 evaluations the one has a rival at 8: nobody may say that nothing reaches it.
  ASSERT_EQ(run("solver euler --nfe 2 -o worse/two.solver.json").code, 0);
  auto two = json::parse(read_file(folder_ / "worse/two.solver.json"));
  two["provenance"] = {{"made_by", "distil"}, {"validation_psnr", 30}};
  write_file_atomically(folder_ / "worse/two.solver.json", two.dump());
  const Outcome apart =
      run("compare --count 16 --nfe 2 --no-cache --solvers worse/two.solver.json,"
          "better/bns.solver.json");
  EXPECT_FALSE(has(apart, "two.solver.json reach") && has(apart, "No other solver")) << apart.out;
}

// What a solver is worth is what the best of the catalogue costs, which is looked for.
TEST_F(CompareCommand, SaysWhatTheBestOfTheCatalogueNeeds) {
  ASSERT_EQ(run("solver midpoint --nfe 8 -o known.solver.json").code, 0);
  auto known = json::parse(read_file(folder_ / "known.solver.json"));
  known["provenance"] = {{"made_by", "distil"}, {"validation_psnr", 30}};
  write_file_atomically(folder_ / "known.solver.json", known.dump());
  const std::string compare = "compare --count 4 --no-cache ";
  const Outcome as_good = run(compare + "--nfe 8 --solvers euler,known.solver.json");
  EXPECT_TRUE(has(as_good, "The best of the catalogue (")) << as_good.out;
  EXPECT_TRUE(has(as_good, ") needs at most 8 for the same.")) << as_good.out;
  EXPECT_TRUE(has(as_good, "4 samples are few: others may differ by decibels.")) << as_good.out;
  const Outcome unasked =
      run(compare + "--nfe 8 --solvers euler,known.solver.json --equal-up-to 0");
  EXPECT_FALSE(has(unasked, "catalogue")) << unasked.out;

  ASSERT_EQ(run("distill --method fit --nfe 4 --samples 24 --tolerance 1e-6 -o run").code, 0);
  const Outcome better = run(compare + "--nfe 4 --solvers euler,run/bns.solver.json");
  std::smatch found;
  const std::regex sentence("The best of the catalogue \\(([^ ]*)\\) needs about ([0-9]+) for");
  ASSERT_TRUE(std::regex_search(better.out, found, sentence)) << better.out;
  const int needed = std::stoi(found[2]);
  ASSERT_GT(needed, 4);
  const auto best_of = [&](const std::string& solver, int from, int to) {
    double best = -INFINITY;
    for (const auto& row : figures(
             fmt::format("{} --solvers {} --nfe {}-{}", compare, std::string(solver), from, to))) {
      best = std::max(best, row["psnr_db"].get<double>());
    }
    return best;
  };
  const double target = best_of("run/bns.solver.json", 4, 4);
  EXPECT_GE(best_of(found[1], needed, needed + 10), target);
  EXPECT_LT(best_of("best", 4, 4), target);
}

// Prompts are shown in tables, pages and pictures, and a vocabulary may hold any letters: marks
// that turn the reading order round, quotes, and control characters of Latin-1.
TEST_F(CompareCommand, HostilePromptsActOnNothing) {
  save_image_model({{"conditions",
                     {{{"name", "prompt"},
                       {"shape", {4}},
                       {"dtype", "int64"},
                       {"null", "zeros"},
                       {"vocabulary",
                        {"script", "\xE2\x80\xAEtxt", "'onload'",
                         "\xC2\x9B"
                         "2j"}}}}}});
  save_module("weights.pt", R"(def forward(self, x, t, prompt):
    return -x + 0.01 * prompt.to(x.dtype).sum(1).reshape([-1, 1, 1, 1])
)");
  const std::string prompt =
      "<script> \xE2\x80\xAEtxt \"'onload' \xC2\x9B"
      "2j";
  write_file_atomically(folder_ / "prompts.txt", prompt + "\n");
  const std::string model = "--model model.json --prompts prompts.txt --count 2 --nfe 2 ";
  const Outcome compared =
      run("compare " + model + "--solvers euler,midpoint --no-cache --report r.html --svg svg");
  ASSERT_EQ(compared.code, 0) << compared.err;
  const Outcome drawn = run("sample " + model + "--solver euler -o out");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  const Outcome unknown = run("sample --model model.json --nfe 2 -o x --prompt '" +
                              std::string("\xE2\x80\xAE") + "cod'");
  EXPECT_EQ(unknown.code, 2) << unknown.err;
  for (const auto& outcome : {compared, drawn, unknown}) {
    for (const char* acting : {"\xE2\x80\xAE", "\xC2\x9B", "\x1b"}) {
      EXPECT_EQ((outcome.out + outcome.err).find(acting), std::string::npos) << outcome.out;
    }
  }
}

TEST_F(CompareCommand, WithoutFeaturesDistancesAreNull) {
  for (const auto& row : figures(kCompare)) {
    EXPECT_TRUE(row["fd_ref"].is_null());
    EXPECT_TRUE(row["fd_real"].is_null());
    EXPECT_EQ(row["model_calls"], row["nfe"]);
  }
  const Outcome table = run(kCompare);
  EXPECT_TRUE(has(table, "PSNR in dB"));
  EXPECT_FALSE(has(table, kDistances));
}

TEST_F(CompareCommand, FeaturesAddDistancesToTheReference) {
  save_extractor();
  const auto rows = figures(kCompare + "--features features.pt");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_GT(rows[0]["fd_ref"], rows[1]["fd_ref"]);                              // euler, 4 and 8
  EXPECT_LT(rows[3]["fd_ref"].get<double>(), rows[1]["fd_ref"].get<double>());  // rk4 at 8
  EXPECT_TRUE(rows[0]["fd_real"].is_null());
  const Outcome table = run(kCompare + "--features features.pt");
  EXPECT_TRUE(has(table, "PSNR in dB"));
  EXPECT_TRUE(has(table, kDistances + "reference's samples (24 samples, 4 features of "
                                      "features.pt); two halves of these are "));
  EXPECT_TRUE(has(run(kCompare + "--details --features features.pt"), "fd_ref"));
}

TEST_F(CompareCommand, RealDataAddsDistancesToIt) {
  save_image_model();
  save_module("features.pt", "def forward(self, x):\n    return x.flatten(1)[:, :3]\n");
  // Bytes of a Gaussian of the model's own deviation: 127.5 of them are 1.
  const auto bytes = (normal_noise(3, 0, 400, {1, 4, 4}) * 0.5 * 127.5 + 127.5)
                         .round()
                         .clamp(0, 255)
                         .to(torch::kByte);
  write_safetensors(folder_ / "real.safetensors", {{{"samples", bytes}}, {}});
  const std::string compare =
      "compare --model model.json --solvers midpoint --nfe 8 --count 400 --features features.pt ";
  const auto near = figures(compare + "--real real.safetensors");
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[1]["solver"], "reference");
  EXPECT_NEAR(near[0]["fd_real"].get<double>(), near[1]["fd_real"].get<double>(), 0.02);
  EXPECT_LT(near[1]["fd_real"].get<double>(), 0.05);
  write_safetensors(folder_ / "far.safetensors",
                    {{{"samples", torch::zeros({400, 1, 4, 4}, torch::kByte)}}, {}});
  // All black, at -1 in each of three features: |m|^2 = 3, and three times the variance.
  const auto far = figures(compare + "--real far.safetensors");
  EXPECT_NEAR(far[1]["fd_real"].get<double>(), 3 + 3 * 0.25, 0.3);
  const Outcome table = run(compare + "--real real.safetensors");
  EXPECT_TRUE(has(table, kDistances + "real data real.safetensors (400 of them"));
}

TEST_F(CompareCommand, RealDataMayBeAFolderOfImages) {
  save_image_model();
  save_module("features.pt", "def forward(self, x):\n    return x.mean([2, 3])\n");
  make_folders(folder_ / "images/cats");
  const auto write = [&](int i, int64_t grey) {
    // Twice the model's size, so that they are resized.
    write_png(folder_ / "images/cats" / (std::to_string(i) + ".png"),
              torch::full({1, 8, 8}, grey, torch::kByte));
  };
  for (int i = 0; i < 8; ++i) write(i, 100 + i);
  const std::string compare =
      "compare --model model.json --solvers euler --nfe 4 --count 8 --features features.pt "
      "--real images";
  const auto first = figures(compare), again = figures(compare);
  EXPECT_EQ(first[1]["fd_real"], again[1]["fd_real"]);
  for (int i = 0; i < 8; ++i) write(i, 200 + i);
  EXPECT_NE(figures(compare)[1]["fd_real"], first[1]["fd_real"]);
  save_extractor();
  expect_failure("compare --features features.pt --real images", 3, "no images or sounds");
}

TEST_F(CompareCommand, TheCacheSparesTheReference) {
  save_extractor();
  const Outcome first = run(kCompare + "--features features.pt");
  const Outcome second = run(kCompare + "--features features.pt");
  EXPECT_FALSE(has(first, "(cached)"));
  EXPECT_TRUE(has(second, "(cached)"));
  EXPECT_EQ(first.out.substr(first.out.find('\n')), second.out.substr(second.out.find('\n')));
  const std::string listing = cache_listing();
  EXPECT_EQ(std::count(listing.begin(), listing.end(), '\n'), 1) << listing;
  EXPECT_TRUE(has(run("compare --solvers midpoint --nfe 6 --count 24"), "(cached)"));
}

// Samples are kept a thousand at a time, and batches need not end where files do.
TEST_F(CompareCommand, ManySamplesAreCachedInParts) {
  const std::string compare = "compare --solvers euler --nfe 4 --tolerance 1e-2 --count 1100 ";
  const auto first = figures(compare + "--batch 300");
  const std::string listing = cache_listing();
  EXPECT_EQ(std::count(listing.begin(), listing.end(), '\n'), 2) << listing;
  const auto again = figures(compare + "--batch 512"), uncached = figures(compare + "--no-cache");
  EXPECT_NEAR(again[0]["psnr_db"].get<double>(), first[0]["psnr_db"].get<double>(), 1e-6);
  EXPECT_NEAR(uncached[0]["psnr_db"].get<double>(), first[0]["psnr_db"].get<double>(), 1e-6);
}

TEST_F(CompareCommand, TheCacheKnowsWhatDecidesTheReference) {
  const std::string compare = "compare --solvers euler --nfe 4 ";
  const auto expect_cached = [&](const std::string& options, bool expected) {
    const Outcome outcome = run(compare + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(has(outcome, "(cached)"), expected) << options;
  };
  expect_cached("--count 3", false);
  for (const std::string change :
       {"--tolerance 1e-5 --count 3", "--seed 1 --count 3", "--count 4", "--dtype fp64 --count 3",
        "--dtype tf32 --count 3", "--model analytic:mixture@vp --count 3", "--no-cache --count 3",
        "--cache other --count 3"}) {
    expect_cached(change, false);
  }
  expect_cached("--cache other --count 3", true);
  expect_cached("--batch 2 --count 3", true);
  const std::string classes = "--model analytic:mixture:classes=3 --count 3 ";
  expect_cached(classes + "--cond class=1", false);
  expect_cached(classes + "--cond class=2", false);
  expect_cached(classes + "--cond class=2 --guidance 1", false);
  expect_cached(classes + "--cond class=2 --guidance 1", true);
}

TEST_F(CompareCommand, ABrokenCacheIsComputedAnew) {
  const std::string first = run(kCompare).out;
  std::string name = cache_listing();
  name.pop_back();
  const auto file = folder_ / "cache/bespoke" / name;
  std::string content = read_file(file);
  content[content.size() - 100] ^= 4;
  write_file_atomically(file, content);
  EXPECT_EQ(run(kCompare).out, first);
  EXPECT_TRUE(has(run(kCompare), "(cached)"));
}

TEST_F(CompareCommand, AnotherExtractorIsNotTakenFromTheCache) {
  save_extractor();
  const auto before = figures(kCompare + "--features features.pt");
  save_module("features.pt", "def forward(self, x):\n    return 2 * x[:, :4]\n");
  const auto after = figures(kCompare + "--features features.pt");
  save_module("features.pt", "def forward(self, x):\n    return x[:, :4]\n");
  const auto halved = figures(kCompare + "--features features.pt");
  EXPECT_NE(before[0]["fd_ref"], after[0]["fd_ref"]);
  EXPECT_NEAR(after[0]["fd_ref"].get<double>() / halved[0]["fd_ref"].get<double>(), 4, 1e-4);
}

TEST_F(CompareCommand, RangeAndSizePrepareSamples) {
  save_image_model();
  save_module("features.pt", R"(def forward(self, x):
    assert x.size(2) == 6 and bool((x >= 0).all()) and bool((x <= 255).all())
    return x.mean([2, 3])
)");
  const std::string compare =
      "compare --model model.json --solvers euler --nfe 4 --count 8 --features features.pt ";
  expect_failure(compare, 3, "failed when it was called on an input of shape 2x1x4x4");
  EXPECT_GT(figures(compare + "--features-range 0,255 --features-size 6")[0]["fd_ref"], 0);
}

TEST_F(CompareCommand, FeaturesAreOfWhatIsDecoded) {
  save_module("decoder.pt",
              "def forward(self, z):\n    return z.repeat_interleave(2, 2).clone()\n");
  save_image_model({{"decoder", {{"weights", "decoder.pt"}, {"sample_shape", {1, 8, 4}}}}});
  save_module("features.pt", R"(def forward(self, x):
    assert x.size(2) == 8
    return x.mean([2, 3])
)");
  const std::string compare =
      "compare --model model.json --solvers euler --nfe 4 --count 8 --features features.pt ";
  const auto latent = figures(compare), decoded = figures(compare + "--space decoded");
  EXPECT_GT(latent[0]["fd_ref"], 0);
  EXPECT_EQ(latent[0]["fd_ref"], decoded[0]["fd_ref"]);
  EXPECT_TRUE(latent[0]["latent_psnr_db"].is_null());
  EXPECT_EQ(decoded[0]["latent_psnr_db"], latent[0]["psnr_db"]);
  EXPECT_NE(run(compare + "--space decoded").out.find("PSNR in dB of the latents"),
            std::string::npos);
}

TEST_F(CompareCommand, MistakesAreRefusedBeforeWorkBegins) {
  save_extractor();
  write_file_atomically(folder_ / "notes.txt", "no network");
  const std::string features = kCompare + "--features features.pt ";
  expect_failure(kCompare + "--features-range 0,1", 2, "go with --features");
  expect_failure(kCompare + "--features-size 9", 2, "go with --features");
  expect_failure(kCompare + "--real x.npy", 2, "--real goes with --features");
  expect_failure(features + "--features-range 1", 2, "LO,HI");
  expect_failure(features + "--features-range 1,0", 2, "must increase");
  expect_failure(features + "--features-size=-3", 2, "must not be negative");
  expect_failure(features + "--features-size 9", 3, "no images");
  expect_failure("compare --count 4 --features features.pt", 3, "at least 5 samples, found 4");
  expect_failure(features + "--real none.npy", 3, "none.npy");
  expect_failure(kCompare + "--features notes.txt", 3, "not a TorchScript file");
  expect_failure(kCompare + "--features none.pt", 3, "cannot read");
  expect_failure(kCompare + "--cache x --no-cache", 2, "contradict");
  expect_failure(kCompare + "--cache notes.txt", 1, "a folder is needed");
  save_module("features.pt", "def forward(self, x):\n    return x.sum()\n");
  expect_failure(features, 3, "one row for each of the 2");
  save_module("features.pt", "def forward(self, x):\n    return torch.log(x[:, :4] * 0 - 1)\n");
  expect_failure("compare --solvers euler --nfe 2 --count 40 --no-cache --features features.pt", 3,
                 "features.pt returned NaN or infinity among the features of samples");
}

}  // namespace
}  // namespace bespoke
