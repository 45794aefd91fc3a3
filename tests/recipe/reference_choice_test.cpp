#include "bespoke/recipe/reference_choice.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "bespoke/model/function_model.h"
#include "bespoke/model/mixture.h"

namespace bespoke {
namespace {

PairSource two_samples() {
  PairSource source;
  source.count = 2;
  source.tolerances = {1e-9, 1e-9};
  return source;
}

// Drawn to one value so fast that even steps of the usual number overshoot it.
ModelPtr stiff_model() {
  return function_model(
      Prediction::velocity, fm_ot_schedule(), {4},
      [](const torch::Tensor& x, const torch::Tensor&, const Conditions&) { return 40 * (1 - x); });
}

// Nothing happens but a push by 1, three hundredths of the way before the data.
ModelPtr pushed_model() {
  constexpr double kPlace = 0.03, kWidth = 0.2, kRootOfPi = 1.7724538509055159;
  return function_model(Prediction::velocity, fm_ot_schedule(), {4},
                        [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
                          const torch::Tensor left = (1 - t).clamp_min(1e-9);
                          const torch::Tensor off = (left / kPlace).log() / kWidth;
                          const torch::Tensor push = (-off * off).exp() / left;
                          return torch::ones_like(x) * (push / (kWidth * kRootOfPi)).unsqueeze(1);
                        });
}

double error_of(const ModelPtr& model, const ReferenceChoice& choice) {
  const Pairs exact = make_pairs(model, two_samples());
  PairSource source = two_samples();
  source.fixed_evaluations = choice.fixed_evaluations;
  if (choice.fixed_evaluations == 0) source.tolerances = choice.tolerances;
  return (make_pairs(model, source).x1 - exact.x1).abs().max().item<double>();
}

TEST(ReferenceChoice, SpendsFewEvaluationsEvenly) {
  const ReferenceChoice choice = choose_reference(stiff_model(), two_samples(), 30, {});
  EXPECT_EQ(choice.fixed_evaluations, 30);
  EXPECT_EQ(choice.calls, 0);
}

TEST(ReferenceChoice, SpendsManyEvenlyOnASmoothModel) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  const ReferenceChoice choice = choose_reference(model, two_samples(), 60, {});
  EXPECT_EQ(choice.fixed_evaluations, 60);
  EXPECT_EQ(choice.calls, 2 * (60 + 120));
}

TEST(ReferenceChoice, FollowsTheErrorsOfAStiffModel) {
  const ModelPtr model = stiff_model();
  const ReferenceChoice choice = choose_reference(model, two_samples(), 60, {});
  ASSERT_EQ(choice.fixed_evaluations, 0);
  EXPECT_GT(choice.calls, 2 * (60 + 120));
  ReferenceChoice even;
  even.fixed_evaluations = 60;
  EXPECT_LT(error_of(model, choice), error_of(model, even) / 3);
}

// Steps that follow errors are so long here that they miss the push.
TEST(ReferenceChoice, StaysWithEvenStepsWhereTheOthersOverlookSomething) {
  const ReferenceChoice choice = choose_reference(pushed_model(), two_samples(), 60, {});
  EXPECT_EQ(choice.fixed_evaluations, 60);
  EXPECT_EQ(choice.share, 1);
  EXPECT_GT(choice.calls, 2 * (60 + 120));
}

// Where samples cost more than was planned, there are fewer of them, and none that is far off.
TEST(ReferenceChoice, DrawsFewerSamplesWhereExactOnesAreDear) {
  const ModelPtr model = stiff_model();
  const ReferenceChoice choice = choose_reference(model, two_samples(), 31, {});
  ASSERT_EQ(choice.fixed_evaluations, 0);
  EXPECT_LT(choice.share, 1);
  ReferenceChoice even;
  even.fixed_evaluations = 31;
  EXPECT_LT(error_of(model, choice), error_of(model, even) / 3);
  PairSource source = two_samples();
  source.tolerances = choice.tolerances;
  const auto cost = make_pairs(model, source).evaluations.sum().item<int64_t>() / source.count;
  EXPECT_LE(choice.affordable(40) * cost, 40 * 31);
  EXPECT_EQ(choice.affordable(1), 1);
  EXPECT_EQ(choice.affordable(0), 0);
}

}  // namespace
}  // namespace bespoke
