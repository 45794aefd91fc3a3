#include "bespoke/measure/features.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "refusal.h"
#include "support.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

class FeaturesTest : public ::testing::Test {
 protected:
  // An extractor whose forward(x) is these lines.
  FeatureExtractor extractor(const std::string& body, const FeatureOptions& options = {}) const {
    torch::jit::Module module("extractor");
    module.define("def forward(self, x):\n    " + body + "\n");
    module.save(file_.string());
    return FeatureExtractor(file_, options);
  }

  void expect_refused(const std::string& body, const std::string& expected) const {
    const auto features = extractor(body);
    const std::string message = testing::refusal([&] { features(images_); });
    EXPECT_NE(message.find(expected), std::string::npos) << body << ": " << message;
    EXPECT_NE(message.find("extractor.pt"), std::string::npos) << message;
  }

  testing::TemporaryFolder temporary_;
  std::filesystem::path file_ = temporary_.path() / "extractor.pt";
  torch::Tensor images_ = normal_noise(1, 0, 5, {3, 8, 8}).clamp(-1, 1);
};

TEST_F(FeaturesTest, GivesWhatTheModuleMakesOfFloats) {
  const auto features = extractor("return x.mean([2, 3])");
  EXPECT_TRUE(torch::equal(features(images_), images_.to(torch::kFloat).mean({2, 3})));
  const auto pooled = extractor("return x.mean([2, 3], keepdim=True)");
  EXPECT_TRUE(torch::equal(pooled(images_), features(images_)));
  EXPECT_EQ(features.dimension({3, 8, 8}), 3);
}

TEST_F(FeaturesTest, RescalesToTheRangeItExpects) {
  FeatureOptions options;
  options.range = {{0, 255}};
  const auto features = extractor("return x.flatten(1)", options);
  const auto values = torch::tensor({{-1.0, 0.0, 1.0, 1.5, -9.0}}).t();
  const auto expected = torch::tensor({{0.0, 127.5, 255.0, 255.0, 0.0}}).t();
  EXPECT_TRUE(torch::allclose(features(values), expected.to(torch::kFloat)));
  // Without a range nothing is clipped.
  EXPECT_TRUE(torch::equal(extractor("return x.flatten(1)")(values), values.to(torch::kFloat)));
}

TEST_F(FeaturesTest, ResizesImages) {
  FeatureOptions options;
  options.size = 2;
  const auto features = extractor("return x.flatten(1)", options);
  EXPECT_EQ(features.dimension({3, 8, 8}), 12);
  const auto flat = features(torch::full({2, 3, 8, 8}, 0.25));
  EXPECT_TRUE(torch::allclose(flat, torch::full({2, 12}, 0.25)));
  EXPECT_NE(testing::refusal([&] {
              features(torch::zeros({2, 100}));
            }).find("no images"),
            std::string::npos);
}

TEST_F(FeaturesTest, RefusesWhatAreNoFeatures) {
  expect_refused("return (x, x)", "returned no tensor");
  expect_refused("return x", "shape 5x3x8x8");
  expect_refused("return x.mean([1, 2, 3])", "expected features [batch, d]");
  expect_refused("return x.mean([0, 2, 3])", "one row for each of the 5");
  expect_refused("return x.flatten(1).gt(0)", "of floating-point numbers");
  expect_refused("return x.reshape([-1, 7])", "failed when it was called on an input of shape");
  EXPECT_NE(testing::refusal([&] { FeatureExtractor(temporary_.path() / "none.pt", {}); }), "");
}

TEST_F(FeaturesTest, RefusesNumbersThatAreNotFinite) {
  const auto features = extractor("return torch.log(x.flatten(1))");
  try {
    features(images_);
    FAIL() << "accepted NaN";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::diverged);
    EXPECT_NE(std::string(error.what()).find("NaN or infinity"), std::string::npos);
  }
  try {
    feature_statistics(features, images_, 5);
    FAIL() << "accepted NaN";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  }
  EXPECT_EQ(features.dimension({3, 8, 8}), 192);  // how many there are does not depend on it
}

TEST_F(FeaturesTest, StatisticsRefuseADimensionThatVaries) {
  const auto features = extractor("return x.flatten(1)[:, :x.size(0)]");
  EXPECT_NE(testing::refusal([&] { feature_statistics(features, images_, 3); }).find("features"),
            std::string::npos);
  const auto steady = extractor("return x.mean([2, 3])");
  const auto one = feature_statistics(steady, images_, 5),
             parts = feature_statistics(steady, images_, 2);
  EXPECT_EQ(one.count, 5);
  EXPECT_LT(testing::relative_error(parts.covariance, one.covariance), 1e-12);
}

}  // namespace
}  // namespace bespoke
