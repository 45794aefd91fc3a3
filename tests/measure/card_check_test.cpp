// Networks of known truth, declared rightly and wrongly.

#include "bespoke/measure/card_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

using nlohmann::json;

constexpr int64_t kDimension = 128;

// A path as TorchScript in t, apart from the schedules it checks.
struct Path {
  const char *name, *alpha, *sigma, *alpha_dot, *sigma_dot;
};

const Path kFmOt = {"fm-ot", "t", "1.0 - t + 1e-6", "torch.ones_like(t)", "-torch.ones_like(t)"};
const Path kCosine = {"cosine", "torch.sin(1.5707963 * t)", "torch.cos(1.5707963 * t) + 1e-6",
                      "1.5707963 * torch.cos(1.5707963 * t)",
                      "-1.5707963 * torch.sin(1.5707963 * t)"};
const Path kVp = {"vp", "torch.exp(-4.975 * (1.0 - t) * (1.0 - t) - 0.05 * (1.0 - t))",
                  "torch.sqrt(1.0 - alpha * alpha + 1e-6)", "alpha * (9.95 * (1.0 - t) + 0.05)",
                  "-alpha * alpha_dot / sigma"};
const Path kEdm = {"edm", "torch.ones_like(t)", "80.0 * (1.0 - t) + 1e-4", "torch.zeros_like(t)",
                   "-80.0 * torch.ones_like(t)"};

// What a network with this prediction returns, in terms of the data D and the noise E.
std::string output_of(const std::string& prediction) {
  if (prediction == "velocity") return "alpha_dot * D + sigma_dot * E";
  if (prediction == "noise") return "E";
  if (prediction == "data") return "D";
  if (prediction == "v") return "alpha * E - sigma * D";
  return "(D - 0.25 * alpha * x / q) * torch.sqrt(q) / (0.5 * sigma)";
}

class CardCheckTest : public ::testing::Test {
 protected:
  // A mixture's exact model on the path. `given` makes x of what the network is given, and
  // `returned` what it returns of its result.
  void save(const Path& path, const std::string& output, const std::string& given = "x",
            const std::string& returned = "result") const {
    const Mixture mixture = data_mixture();
    torch::jit::Module module("mixture");
    module.register_buffer("means", mixture.means);
    module.register_buffer("variances", torch::tensor(mixture.deviations, torch::kDouble).pow(2));
    module.define("def forward(self, x, t):\n    x = " + given +
                  "\n    t = t.unsqueeze(1)\n    alpha = " + path.alpha +
                  "\n    sigma = " + path.sigma + "\n    alpha_dot = " + path.alpha_dot +
                  "\n    sigma_dot = " + path.sigma_dot + R"(
    q = sigma * sigma + 0.25 * alpha * alpha
    v = alpha * alpha * self.variances.unsqueeze(0) + sigma * sigma
    z = x.unsqueeze(1) - alpha.unsqueeze(2) * self.means.unsqueeze(0)
    log_weight = -64.0 * torch.log(v) - (z * z).sum(2) / (2.0 * v)
    gain = (alpha * self.variances.unsqueeze(0) / v).unsqueeze(2)
    D = (torch.softmax(log_weight, 1).unsqueeze(2) * (self.means.unsqueeze(0) + gain * z)).sum(1)
    E = (x - alpha * D) / sigma
    result = )" + output +
                  "\n    return " + returned + "\n");
    module.to(torch::kFloat);
    module.save((folder_.path() / "weights.pt").string());
  }

  static Mixture data_mixture() {
    RandomMixtureOptions options;
    options.dimension = kDimension;
    return random_mixture(options);
  }

  // Draws of the mixture itself.
  static torch::Tensor real_samples(int64_t count) {
    const Mixture mixture = data_mixture();
    const auto chosen = torch::arange(count).remainder(mixture.means.size(0));
    const auto deviations = torch::tensor(mixture.deviations, torch::kDouble).index({chosen});
    torch::manual_seed(5);
    return mixture.means.index({chosen}) +
           deviations.unsqueeze(1) * torch::randn({count, kDimension}, torch::kDouble);
  }

  CardCheck run(const json& changes, CardCheckOptions options = {}) const {
    json document = {{"format", "torchscript"},
                     {"weights", "weights.pt"},
                     {"sample_shape", {kDimension}},
                     {"time", {{"convention", "noise-to-data"}}}};
    document.merge_patch(changes);
    const ModelCard card = parse_model_card(document.dump(), folder_.path() / "model.json");
    return check_card(load_network(card), card, options);
  }

  static json card_of(const std::string& prediction, const std::string& schedule) {
    return {{"prediction", prediction}, {"schedule", {{"name", schedule}}}};
  }

  // Refused, or doubted, with a change that begins so.
  static void expect_caught(const CardCheck& check, const std::string& change) {
    EXPECT_NE(check.verdict, CardVerdict::fits) << change << ", gain " << check.gain;
    EXPECT_EQ(check.others.front().change.rfind(change, 0), 0U)
        << change << ", but found " << check.others.front().change;
  }

  // Every single mistake in the card of a network on this path is caught, with its key.
  void expect_all_caught(const Path& path, const std::string& prediction,
                         const CardCheckOptions& options = {},
                         const std::vector<std::string>& schedules = {"cosine", "vp", "fm-ot",
                                                                      "edm"}) const {
    const json truth = card_of(prediction, path.name);
    for (const std::string wrong : {"velocity", "noise", "data", "v", "edm"}) {
      if (wrong == prediction) continue;
      expect_caught(run(card_of(wrong, path.name), options), "prediction \"" + prediction + "\"");
    }
    json reversed = truth, scaled = truth;
    reversed["time"]["convention"] = "data-to-noise";
    expect_caught(run(reversed, options), "time.convention \"noise-to-data\"");
    scaled["time"]["scale"] = 1000;
    expect_caught(run(scaled, options), "time.scale 1");
    for (const std::string& wrong : schedules) {
      if (wrong == path.name) continue;
      // Some schedules are the same but for their levels, or nearly so.
      expect_caught(run(card_of(prediction, wrong), options), "schedule ");
    }
  }

  testing::TemporaryFolder folder_;
};

// Sixty checks: none is refused, and few are doubted.
TEST_F(CardCheckTest, AcceptsTheTruthOnEveryPathWithEveryPrediction) {
  int doubts = 0;
  for (const Path& path : {kFmOt, kCosine, kVp, kEdm}) {
    for (const std::string prediction : {"velocity", "noise", "data", "v", "edm"}) {
      save(path, output_of(prediction));
      for (uint64_t seed = 0; seed < 3; ++seed) {
        CardCheckOptions options;
        options.seed = 10 * seed;
        const CardCheck check = run(card_of(prediction, path.name), options);
        doubts += check.verdict == CardVerdict::doubtful;
        EXPECT_NE(check.verdict, CardVerdict::wrong)
            << path.name << ", " << prediction << ", seed " << options.seed << ": "
            << check.others.front().change << " gains " << check.gain;
      }
    }
  }
  EXPECT_LE(doubts, 12);
}

TEST_F(CardCheckTest, NamesEachMistakeOfAFlowModel) {
  save(kFmOt, output_of("velocity"));
  expect_all_caught(kFmOt, "velocity");
}

TEST_F(CardCheckTest, NamesEachMistakeOfANoiseModel) {
  save(kVp, output_of("noise"));
  expect_all_caught(kVp, "noise");
}

TEST_F(CardCheckTest, NamesEachMistakeOfAVModel) {
  save(kCosine, output_of("v"));
  // A v model's cosine and FM-OT paths are too near each other for samples it draws to tell.
  expect_all_caught(kCosine, "v", {}, {"vp", "edm"});
}

TEST_F(CardCheckTest, RealSamplesTellToo) {
  CardCheckOptions options;
  options.count = 16;
  options.data = real_samples(options.count);
  save(kCosine, output_of("v"));
  EXPECT_EQ(run(card_of("v", "cosine"), options).verdict, CardVerdict::fits);
  expect_all_caught(kCosine, "v", options);
  EXPECT_EQ(run(card_of("v", "fm-ot"), options).verdict, CardVerdict::wrong);
}

// The figures are what they are said to be: one times less is as good, and the best has no excess.
TEST_F(CardCheckTest, CountsAChangeOfNameForNothing) {
  save(kVp, output_of("noise"));
  const CardCheck check = run(card_of("noise", "vp"));
  EXPECT_EQ(check.others.front().change, "schedule \"ddpm-linear\"");
  EXPECT_NEAR(check.gain, 1, 0.01);
  EXPECT_LT(check.declared.excess, 1.05);
  EXPECT_LT(check.declared.error, 0.5);
  EXPECT_GE(check.sets, 2);
}

// A path that begins with much signal is drawn from where it begins.
TEST_F(CardCheckTest, AcceptsAPathThatBeginsWithSignal) {
  save(kVp, output_of("noise"));
  json truth = card_of("noise", "vp");
  truth["schedule"]["start"] = 0.6;  // SNR 0.9
  const CardCheck check = run(truth);
  EXPECT_NE(check.verdict, CardVerdict::wrong);
  EXPECT_TRUE(std::isfinite(check.declared.error));
  EXPECT_LT(check.declared.error, 0.9);
}

TEST_F(CardCheckTest, AcceptsScoresAndPathsThatEndBeforeTheData) {
  save({"ve", "torch.ones_like(t)", "0.01 * torch.exp(8.517193 * (1.0 - t))", "torch.zeros_like(t)",
        "torch.zeros_like(t)"},
       "-E / sigma");
  for (const bool denoise : {false, true}) {
    json truth = card_of("score", "ve");
    if (denoise) truth["schedule"]["denoise"] = true;
    const CardCheck check = run(truth);
    EXPECT_NE(check.verdict, CardVerdict::wrong) << denoise;
    EXPECT_LT(check.declared.error, 0.5);
  }
  // Twice the noise is no small matter.
  json wrong = card_of("score", "ve");
  wrong["schedule"]["sigma_max"] = 100;
  const CardCheck check = run(wrong);
  EXPECT_NE(check.verdict, CardVerdict::fits);
  EXPECT_TRUE(std::any_of(check.others.begin(), check.others.end(), [](const ScoredCard& other) {
    return other.change == "schedule.sigma_max 50";
  })) << "the true range was not tried";
}

// The alphas of discrete levels, as TorchScript that looks them up at t, the index of a level.
std::string table_of_alphas(const Schedule& schedule, int levels) {
  std::string table = "[1.0";
  for (int i = 0; i < levels; ++i) {
    const double alpha = schedule.alpha(1 - (i + 1) / static_cast<double>(levels));
    table += fmt::format(", {:.9g}", std::max(alpha, 1e-9));
  }
  static_assert(static_cast<int>(torch::kLong) == 4, "what TorchScript knows the type by");
  const std::string logs = "torch.log(torch.tensor(" + table + "]))";
  const std::string at = "[(t + {}).floor().to(4).clamp(0, " + std::to_string(levels) + ")]";
  return "torch.exp(torch.lerp(" + logs + fmt::format(fmt::runtime(at), "1.0") + ", " + logs +
         fmt::format(fmt::runtime(at), "2.0") + ", t + 1.0 - (t + 1.0).floor()))";
}

// True cards of conventions that plain flows do not have.
TEST_F(CardCheckTest, AcceptsRangesOfNoiseAndScoresOfTheTutorial) {
  const json stops = {{"end", 0.999}, {"denoise", true}};
  save({"ve-power", "torch.ones_like(t)",
        "torch.sqrt((torch.pow(25.0, 2.0 * (1.0 - t)) - 1.0) / 6.4377516)", "torch.zeros_like(t)",
        "torch.zeros_like(t)"},
       "-E / sigma");
  json truth = card_of("score", "ve-power");
  truth["schedule"].update(stops);
  EXPECT_NE(run(truth).verdict, CardVerdict::wrong);
  EXPECT_LT(run(truth).declared.error, 0.5);
  save({"edm", "torch.ones_like(t)", "0.002 + 79.998 * (1.0 - t)", "torch.zeros_like(t)",
        "torch.zeros_like(t)"},
       "D");
  truth = card_of("data", "edm");
  truth["schedule"].update({{"sigma_min", 0.002}, {"denoise", true}});
  EXPECT_NE(run(truth).verdict, CardVerdict::wrong);
  EXPECT_LT(run(truth).declared.error, 0.5);
}

TEST_F(CardCheckTest, AcceptsBetasThatWereRescaledToZeroSnr) {
  const SchedulePtr path = make_schedule(
      "ddpm-linear:steps=100,beta_start=0.001,beta_end=0.2,"
      "zero_terminal_snr=1");
  const std::string alpha = table_of_alphas(*path, 100);
  save({"zero-snr", alpha.c_str(), "torch.sqrt(1.0 - alpha * alpha + 1e-6)", "torch.zeros_like(t)",
        "torch.zeros_like(t)"},
       output_of("v"));
  const CardCheck check = run({{"prediction", "v"},
                               {"schedule", path->describe()},
                               {"time", {{"convention", "index"}, {"levels", 100}}}});
  EXPECT_NE(check.verdict, CardVerdict::wrong);
  EXPECT_LT(check.declared.error, 0.5);
}

TEST_F(CardCheckTest, AcceptsOtherShapesOfWhatNetworksGetAndReturn) {
  json truth = card_of("velocity", "fm-ot");
  truth["sample_shape"] = {2, 8, 8};
  save(kFmOt, output_of("velocity"), "x.permute(0, 3, 1, 2).flatten(1)",
       "result.reshape(-1, 2, 8, 8).permute(0, 2, 3, 1)");
  json last = truth;
  last["layout"] = "channels-last";
  EXPECT_EQ(run(last).verdict, CardVerdict::fits);
  save(kFmOt, output_of("velocity"), "x.flatten(1)",
       "torch.cat([result.reshape(-1, 2, 8, 8), torch.ones([x.size(0), 1, 8, 8])], 1)");
  json more = truth;
  more["extra_channels"] = 1;
  EXPECT_EQ(run(more).verdict, CardVerdict::fits);
}

TEST_F(CardCheckTest, AcceptsAModelWhoseSamplerClips) {
  save(kVp, "E * (1.0 - 0.6 * torch.pow(1.0 - alpha, 8))");
  json card = card_of("noise", "vp");
  card["value_range"] = {-1.5, 1.5};
  card["clip"] = true;
  const CardCheck check = run(card);
  EXPECT_NE(check.verdict, CardVerdict::wrong);
  EXPECT_LT(check.declared.error, 0.5);
}

// The betas of few levels, which no schedule of a thousand has.
TEST_F(CardCheckTest, NamesTheBetasOfFewLevels) {
  const SchedulePtr quadratic =
      make_schedule("ddpm-quadratic:steps=50,beta_start=0.0001,beta_end=0.5");
  // The network looks its alphas up, as it was trained.
  const std::string alpha = table_of_alphas(*quadratic, 50);
  save({"quadratic", alpha.c_str(), "torch.sqrt(1.0 - alpha * alpha + 1e-6)", "torch.zeros_like(t)",
        "torch.zeros_like(t)"},
       "E");
  const json time = {{"convention", "index"}, {"levels", 50}};
  json truth = {{"prediction", "noise"}, {"schedule", quadratic->describe()}, {"time", time}};
  EXPECT_NE(run(truth).verdict, CardVerdict::wrong);
  json wrong = truth;
  wrong["schedule"] = {{"name", "ddpm-cosine"}, {"steps", 50}};
  const CardCheck check = run(wrong);
  EXPECT_NE(check.verdict, CardVerdict::fits);
  EXPECT_NE(check.others.front().change.find("ddpm-quadratic"), std::string::npos)
      << check.others.front().change;
}

// Reversed and scaled at once: two changes of one key, which no schedule explains better.
TEST_F(CardCheckTest, NamesATimeThatIsReversedAndScaled) {
  save(kFmOt, output_of("velocity"));
  json wrong = card_of("velocity", "fm-ot");
  wrong["time"] = {{"convention", "data-to-noise"}, {"scale", 1000}};
  expect_caught(run(wrong), "time.convention \"noise-to-data\" with scale 1");
}

// Values outside the range: of a model that must be clipped, and of data on another scale.
TEST_F(CardCheckTest, TriesAClipWhereValuesLieOutside) {
  save(kVp, output_of("noise"));
  json card = card_of("noise", "vp");
  card["value_range"] = {-4, 4};
  EXPECT_FALSE(run(card).clip.has_value());
  card["value_range"] = {-0.2, 0.2};
  const CardCheck check = run(card);
  ASSERT_TRUE(check.clip.has_value());
  EXPECT_LT(check.clip->gain, 0.98);  // the data is wider, and clipped it is denoised worse
  EXPECT_GT(check.most, 0.5);
  card["clip"] = true;
  EXPECT_FALSE(run(card).clip.has_value());
}

// A network whose noise prediction is too small where there is hardly any signal: its samples leave
// the range of the data, and clipped they do not.
TEST_F(CardCheckTest, TellsAMissingClipFromAnotherScale) {
  save(kVp, "E * (1.0 - 0.6 * torch.pow(1.0 - alpha, 8))");
  json card = card_of("noise", "vp");
  card["value_range"] = {-1.5, 1.5};
  const CardCheck check = run(card);
  ASSERT_TRUE(check.clip.has_value());
  EXPECT_GT(check.clip->gain, 1.2);
  EXPECT_LT(check.clip->deviation, 0.7 * check.declared.deviation);
  // Found from its own samples alone: what leaves the range tells nothing of the other keys.
  EXPECT_TRUE(only_lacks_clip(check));
  EXPECT_TRUE(check.others.empty());
}

// The figures of a public model of faces, which denoises alike under a false schedule and draws
// pale shapes by it.
TEST_F(CardCheckTest, DoubtsAScheduleThatDrawsWhatTheNetworkCannotDenoise) {
  const ModelCard card;
  const ScoredCard truth = {"schedule \"ddpm-cosine\"", card, 0.191, 1.015, 0.682, 0};
  const ScoredCard alike = {"schedule \"cosine\"", card, 0.194, 1.015, 0.678, 0};
  const ScoredCard false_one = {"schedule \"ddpm-linear\"", card, 0.590, 1.048, 0.295, 0};
  const auto found = drawing_better(false_one, {truth, alike});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->change, truth.change);
  EXPECT_FALSE(drawing_better(truth, {alike, false_one}).has_value());
  // One that denoises the samples of all worse has drawn easy ones.
  const ScoredCard easy = {"prediction \"data\"", card, 0.1, 1.5, 0.05, 0};
  EXPECT_FALSE(drawing_better(false_one, {easy}).has_value());
}

// A network that looks its time up in a table fails at any other: the changes of its card that give
// it such are left out, and the true card is not blamed for them.
TEST_F(CardCheckTest, LeavesOutWhatTheNetworkDoesNotTake) {
  const SchedulePtr path = make_schedule("ddpm-linear:steps=20,beta_end=0.5");
  std::string table = "[";
  for (int i = 0; i < 20; ++i) table += fmt::format("{:.9g}, ", path->alpha(1 - (i + 1) / 20.));
  const std::string alpha = "torch.tensor(" + table + "])[t.squeeze(1)].unsqueeze(1)";
  save({"table", alpha.c_str(), "torch.sqrt(1.0 - alpha * alpha + 1e-6)", "torch.zeros_like(alpha)",
        "torch.zeros_like(alpha)"},
       "E");
  const CardCheck check =
      run({{"prediction", "noise"},
           {"schedule", path->describe()},
           {"time", {{"convention", "index"}, {"levels", 20}, {"integer", true}}}});
  EXPECT_NE(check.verdict, CardVerdict::wrong);
  EXPECT_GT(check.sets, 0);
  for (const auto& other : check.others) {
    EXPECT_EQ(other.change.find("noise-to-data"), std::string::npos) << other.change;
  }
}

TEST_F(CardCheckTest, ScoresWhatCounts) {
  save(kFmOt, output_of("velocity"));
  const json card = card_of("velocity", "fm-ot");
  const CardCheck all = run(card);
  CardCheckOptions options;
  options.mask = torch::zeros({1, kDimension});
  options.mask.slice(1, 0, kDimension / 2).fill_(1);
  const CardCheck half = run(card, options);
  EXPECT_EQ(half.verdict, CardVerdict::fits);
  EXPECT_NE(half.declared.error, all.declared.error);
  EXPECT_NEAR(half.declared.error, all.declared.error, 0.15 * all.declared.error);
}

TEST_F(CardCheckTest, SaysWhatItCannotTellApart) {
  save(kVp, output_of("noise"));
  const auto alike = like_the_card(run(card_of("noise", "vp")));
  EXPECT_NE(std::find(alike.begin(), alike.end(), "schedule \"ddpm-linear\""), alike.end());
}

TEST_F(CardCheckTest, AFirstLookSaysWhatIsOdd) {
  save(kFmOt, output_of("velocity"));
  const auto looked = [&](const json& changes) {
    json document = {{"format", "torchscript"},
                     {"weights", "weights.pt"},
                     {"sample_shape", {kDimension}},
                     {"time", {{"convention", "noise-to-data"}}}};
    document.merge_patch(changes);
    const ModelCard card = parse_model_card(document.dump(), folder_.path() / "model.json");
    return remarks(glance_at_samples(load_model(card), card.least, card.most, {}), card);
  };
  json card = card_of("velocity", "fm-ot");
  card["value_range"] = {-2, 2};
  EXPECT_TRUE(looked(card).empty());
  card["value_range"] = {-0.1, 0.1};
  ASSERT_EQ(looked(card).size(), 1U);
  EXPECT_NE(looked(card)[0].find("clips (\"clip\")"), std::string::npos);
  card["value_range"] = {-100, 100};
  ASSERT_EQ(looked(card).size(), 1U);
  EXPECT_NE(looked(card)[0].find("deviation"), std::string::npos);
}

TEST_F(CardCheckTest, DoubtsWhatDenoisesNothing) {
  save(kFmOt, "torch.zeros_like(x) + 0.3");
  EXPECT_EQ(run(card_of("velocity", "fm-ot")).verdict, CardVerdict::doubtful);
}

}  // namespace
}  // namespace bespoke
