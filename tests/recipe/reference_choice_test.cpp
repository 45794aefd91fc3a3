#include "bespoke/recipe/reference_choice.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>

#include "bespoke/model/function_model.h"
#include "bespoke/model/mixture.h"

namespace bespoke {
namespace {

const double kRootOfPi = std::sqrt(std::acos(-1.0));

PairSource two_samples() {
  PairSource source;
  source.count = 2;
  source.tolerances = {1e-9, 1e-9};
  return source;
}

// Nothing happens but a push by 1, when `distance` is near `place` on a scale of logarithms.
ModelPtr pushed_model(const std::function<torch::Tensor(const torch::Tensor& t)>& distance,
                      double place, double width) {
  return function_model(Prediction::velocity, fm_ot_schedule(), {4},
                        [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
                          const torch::Tensor left = distance(t).clamp_min(1e-9);
                          const torch::Tensor off = (left / place).log() / width;
                          const torch::Tensor push = (-off * off).exp() / left;
                          return torch::ones_like(x) * (push / (width * kRootOfPi)).unsqueeze(1);
                        });
}

ModelPtr pushed_next_to_noise() {
  return pushed_model([](const torch::Tensor& t) { return t; }, 0.01, 0.2);
}

ModelPtr pushed_next_to_data() {
  return pushed_model([](const torch::Tensor& t) { return 1 - t; }, 0.01, 0.5);
}

TEST(ReferenceChoice, SpendsFewEvaluationsEvenly) {
  const ReferenceChoice choice = choose_reference(pushed_next_to_noise(), two_samples(), 30, {});
  EXPECT_EQ(choice.fixed_evaluations, 30);
  EXPECT_EQ(choice.calls, 0);
}

TEST(ReferenceChoice, SpendsManyEvenlyOnASmoothModel) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  const ReferenceChoice choice = choose_reference(model, two_samples(), 60, {});
  EXPECT_EQ(choice.fixed_evaluations, 60);
  EXPECT_EQ(choice.calls, 2 * (60 + 120));
}

TEST(ReferenceChoice, FollowsErrorsWhereMoreEvenStepsComeNearerToThat) {
  const ReferenceChoice choice = choose_reference(pushed_next_to_noise(), two_samples(), 60, {});
  EXPECT_EQ(choice.fixed_evaluations, 0);
  EXPECT_GT(choice.tolerances.rtol, 0);
  EXPECT_GT(choice.calls, 2 * (60 + 120));
}

// Steps that follow errors are so long here that they miss the push.
TEST(ReferenceChoice, StaysWithEvenStepsWhereTheOthersOverlookSomething) {
  const ReferenceChoice choice = choose_reference(pushed_next_to_data(), two_samples(), 60, {});
  EXPECT_EQ(choice.fixed_evaluations, 60);
  EXPECT_GT(choice.calls, 2 * (60 + 120));
}

}  // namespace
}  // namespace bespoke
