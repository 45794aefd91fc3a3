#include "bespoke/recipe/error_mask.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "bespoke/base/mean.h"
#include "bespoke/distill/family.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/recipe/tensor_samples.h"
#include "problem.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

// A card of samples of this shape with this mask, beside the conditions "m" [3, 1] and "y".
ModelCard masked_card(const std::string& shape, const std::string& mask,
                      const std::filesystem::path& folder = {}) {
  return parse_model_card(
      R"({"format": "torchscript", "weights": "w.pt", "prediction": "velocity",
          "schedule": {"name": "fm-ot"}, "time": {"convention": "noise-to-data"},
          "conditions": [{"name": "m", "shape": [3, 1], "null": "zeros"},
                         {"name": "y", "classes": 3}],
          "sample_shape": )" +
          shape + R"(, "error_mask": )" + mask + "}",
      folder / "model.json");
}

torch::Tensor two_masks() { return torch::tensor({1., 0., 1., 0., 0., 1.}).reshape({2, 3, 1}); }

TEST(ErrorMaskOfACard, IsAConditionOrWhatItLeaves) {
  const Conditions given = {{"m", two_masks()}};
  const torch::Tensor mask = error_mask(masked_card("[3, 2]", R"("m")"), given);
  EXPECT_TRUE(torch::equal(mask, two_masks().expand({2, 3, 2})));
  EXPECT_TRUE(torch::equal(error_mask(masked_card("[3, 2]", R"("not m")"), given), 1 - mask));
  EXPECT_EQ(error_mask(masked_card("[3, 2]", R"("not m")"), {}).sum().item<double>(), 6);
  EXPECT_FALSE(error_mask(ModelCard(), given).defined());
}

TEST(ErrorMaskOfACard, IsAFile) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder.path() / "mask.safetensors",
                    {{{"mask", torch::tensor({0., 1., 1.})}}, {}});
  const torch::Tensor mask =
      error_mask(masked_card("[3, 2]", R"("mask.safetensors")", folder.path()), {});
  EXPECT_TRUE(torch::equal(mask, torch::tensor({{{0., 0.}, {1., 1.}, {1., 1.}}})));
}

TEST(ErrorMaskOfACard, IsOfEachPart) {
  const Conditions given = {{"m", two_masks()}};
  const ModelCard card =
      masked_card(R"({"nodes": [3, 2], "edges": [3, 4]})", R"({"edges": "not m"})");
  const torch::Tensor mask = error_mask(card, given);
  ASSERT_EQ(mask.sizes(), torch::IntArrayRef({2, 18}));
  EXPECT_TRUE(mask.narrow(1, 0, 6).eq(1).all().item<bool>());
  EXPECT_TRUE(
      torch::equal(mask.narrow(1, 6, 12).reshape({2, 3, 4}), 1 - two_masks().expand({2, 3, 4})));
}

TEST(ErrorMaskOfACard, IsRefusedWhereItMakesNoSense) {
  const auto problem = [](const std::string& shape, const std::string& mask,
                          const Conditions& given) {
    return testing::refusal([&] { error_mask(masked_card(shape, mask), given); });
  };
  EXPECT_NE(problem("[3, 2]", R"("other")", {}).find("error_mask"), std::string::npos);
  EXPECT_NE(problem("[3, 2]", R"("y")", {}).find("a condition that is a tensor"),
            std::string::npos);
  EXPECT_NE(problem("[4, 2]", R"("m")", {{"m", two_masks()}}).find("does not go with"),
            std::string::npos);
  EXPECT_NE(problem("[3, 2]", R"("m")", {{"m", two_masks() * 0.5}}).find("zeros and ones"),
            std::string::npos);
  EXPECT_NE(problem(R"({"a": [3]})", R"({"b": "m"})", {}).find("is no part"), std::string::npos);
  EXPECT_NE(problem(R"({"a": [3]})", R"("m")", {}).find("an object"), std::string::npos);
}

// Adam descends the loss that the other methods measure.
TEST(ErrorMaskOfACard, IsInTheGradientsToo) {
  const testing::Problem problem = testing::small_problem();
  TensorSamplesOptions options;
  torch::Tensor mask = torch::ones({64, 6});
  mask.slice(1, 4, 6).zero_();
  mask.slice(0, 0, 10).slice(1, 1, 4).zero_();
  options.mask = [mask](const Conditions&) { return mask; };
  const Samples samples = tensor_samples(problem.field, problem.validation, options);
  EXPECT_NEAR(samples.sample_size(), (54 * 4 + 10) / 64.0, 1e-12);
  const TensorGradients gradients(problem.field, problem.validation, options);
  const auto loss = [&](const std::vector<double>& coefficients) {
    Counts counts;
    return detail::mean(
        samples.log_errors(solver_of(4, coefficients), first_samples(samples), &counts));
  };
  const NsSolver solver = testing::start_solver("midpoint", 4);
  Counts counts;
  const LossGradient found = gradients.at(solver, first_samples(samples), &counts);
  const std::vector<double> values = coefficients_of(solver);
  EXPECT_NEAR(found.loss, loss(values), 1e-9);
  constexpr double kStep = 1e-6;
  for (const size_t c : {1, 2, 6, 9}) {
    auto up = values, down = values;
    up[c] += kStep;
    down[c] -= kStep;
    const double difference = (loss(up) - loss(down)) / (2 * kStep);
    EXPECT_NEAR(found.gradient[c], difference, 1e-5 * (1 + std::abs(difference))) << c;
  }
}

}  // namespace
}  // namespace bespoke
