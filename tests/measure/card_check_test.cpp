// A network of known truth, declared rightly and wrongly.

#include "bespoke/measure/card_check.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include <nlohmann/json.hpp>

#include "support.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

using nlohmann::json;

constexpr int64_t kDimension = 32;

// A mixture's exact model on the path with these alpha and sigma (texts in t), as TorchScript.
class ProbeTest : public ::testing::Test {
 protected:
  void save(const std::string& alpha, const std::string& sigma, const std::string& output) const {
    RandomMixtureOptions options;
    options.dimension = kDimension;
    const Mixture mixture = random_mixture(options);
    torch::jit::Module module("mixture");
    module.register_buffer("means", mixture.means);
    module.register_buffer("variances", torch::tensor(mixture.deviations, torch::kDouble).pow(2));
    module.define("def forward(self, x, t):\n    t = t.unsqueeze(1)\n    alpha = " + alpha +
                  "\n    sigma = " + sigma + R"(
    v = alpha * alpha * self.variances.unsqueeze(0) + sigma * sigma
    z = x.unsqueeze(1) - alpha.unsqueeze(2) * self.means.unsqueeze(0)
    log_weight = -16.0 * torch.log(v) - (z * z).sum(2) / (2.0 * v)
    gain = (alpha * self.variances.unsqueeze(0) / v).unsqueeze(2)
    D = (torch.softmax(log_weight, 1).unsqueeze(2) * (self.means.unsqueeze(0) + gain * z)).sum(1)
    E = (x - alpha * D) / sigma
    return )" + output +
                  "\n");
    module.to(torch::kFloat);
    module.save((folder_.path() / "weights.pt").string());
  }

  CardCheck run(const std::string& prediction, const std::string& schedule,
                const std::string& convention) const {
    const json document = {
        {"format", "torchscript"},          {"weights", "weights.pt"},
        {"sample_shape", {kDimension}},     {"prediction", prediction},
        {"schedule", {{"name", schedule}}}, {"time", {{"convention", convention}}}};
    const ModelCard card = parse_model_card(document.dump(), folder_.path() / "model.json");
    CardCheckOptions options;
    options.count = 32;
    options.batch = 20;
    return check_card(load_network(card), card, options);
  }

  void expect_rejected(const CardCheck& check, const std::string& suggestion) const {
    EXPECT_FALSE(check.accepted) << to_string(check.declared.card.prediction) << ", "
                                 << check.declared.score << " against "
                                 << check.others.front().score;
    EXPECT_EQ(check.others.front().change, suggestion);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ProbeTest, AcceptsTheTruthAndNamesEachSingleMistakeOfAFlowModel) {
  save("t", "1.0 - t + 1e-6", "D - E");
  EXPECT_TRUE(run("velocity", "fm-ot", "noise-to-data").accepted);
  for (const auto* wrong : {"noise", "data", "v", "edm"}) {
    expect_rejected(run(wrong, "fm-ot", "noise-to-data"), "prediction \"velocity\"");
  }
  expect_rejected(run("velocity", "fm-ot", "data-to-noise"), "time.convention \"noise-to-data\"");
  for (const auto* wrong : {"cosine", "vp", "edm"}) {
    expect_rejected(run("velocity", wrong, "noise-to-data"), "schedule \"fm-ot\"");
  }
}

TEST_F(ProbeTest, AcceptsTheTruthAndNamesEachSingleMistakeOfANoiseModel) {
  save("torch.exp(-4.975 * (1.0 - t) * (1.0 - t) - 0.05 * (1.0 - t))",
       "torch.sqrt(1.0 - alpha * alpha + 1e-6)", "E");
  EXPECT_TRUE(run("noise", "vp", "noise-to-data").accepted);
  for (const auto* wrong : {"velocity", "data", "v", "edm"}) {
    expect_rejected(run(wrong, "vp", "noise-to-data"), "prediction \"noise\"");
  }
  expect_rejected(run("noise", "vp", "data-to-noise"), "time.convention \"noise-to-data\"");
  for (const auto* wrong : {"cosine", "fm-ot", "edm"}) {
    const CardCheck check = run("noise", wrong, "noise-to-data");
    EXPECT_FALSE(check.accepted) << wrong;
    // DDPM's linear schedule is VP in a thousand levels: either name is right.
    const std::string change = check.others.front().change;
    EXPECT_TRUE(change == "schedule \"vp\"" || change == "schedule \"ddpm-linear\"") << change;
  }
}

TEST_F(ProbeTest, TellsWhenNothingFits) {
  save("t", "1.0 - t + 1e-6", "torch.zeros_like(x) + 0.3");
  const CardCheck check = run("velocity", "fm-ot", "noise-to-data");
  EXPECT_FALSE(check.accepted);
}

}  // namespace
}  // namespace bespoke
