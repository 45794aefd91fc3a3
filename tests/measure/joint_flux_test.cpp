#include "bespoke/measure/joint_flux.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace bespoke {
namespace {

torch::Tensor steady(int64_t length) {
  return 0.1 * (0.3 * torch::arange(length, torch::kFloat)).sin();
}

TEST(JointFlux, HearsAClickAtAnEndOfTheGap) {
  const Gap gap = {1000, 2000};
  const double smooth = joint_flux(steady(4000), gap);
  torch::Tensor clicking = steady(4000);
  clicking.slice(0, 1000, 2000) += 0.2;
  EXPECT_GT(joint_flux(clicking, gap), smooth + 3);
  torch::Tensor elsewhere = steady(4000);
  elsewhere.slice(0, 2500, 3000) += 0.2;
  EXPECT_NEAR(joint_flux(elsewhere, gap), smooth, 1e-3);
  EXPECT_GE(joint_flux(steady(100), {10, 90}), 0) << "hardly a window";
}

}  // namespace
}  // namespace bespoke
