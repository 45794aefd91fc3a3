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

// Nothing happens but a push of a hundredth of the way's length: even steps mostly miss it.
ModelPtr pushed_model() {
  return function_model(Prediction::velocity, fm_ot_schedule(), {4},
                        [](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
                          const torch::Tensor off = (t - 0.63) / 0.04;
                          return torch::ones_like(x) * (15 * (-off * off).exp()).unsqueeze(1);
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
  const ReferenceChoice choice = choose_reference(pushed_model(), two_samples(), 30, {});
  EXPECT_EQ(choice.fixed_evaluations, 30);
  EXPECT_EQ(choice.calls, 0);
}

TEST(ReferenceChoice, SpendsManyEvenlyOnASmoothModel) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  const ReferenceChoice choice = choose_reference(model, two_samples(), 60, {});
  EXPECT_EQ(choice.fixed_evaluations, 60);
  EXPECT_EQ(choice.calls, 2 * (60 + 120));
}

TEST(ReferenceChoice, FollowsTheErrorsOfARoughModel) {
  const ModelPtr model = pushed_model();
  const ReferenceChoice choice = choose_reference(model, two_samples(), 60, {});
  ASSERT_EQ(choice.fixed_evaluations, 0);
  EXPECT_GT(choice.calls, 2 * (60 + 120));
  ReferenceChoice even;
  even.fixed_evaluations = 60;
  EXPECT_LT(error_of(model, choice), error_of(model, even) / 3);
}

}  // namespace
}  // namespace bespoke
