#include "bespoke/tensor/noise.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace bespoke {
namespace {

TEST(Noise, ASampleDependsOnItsSeedAndIndexAlone) {
  const auto all = normal_noise(3, 0, 20, {3, 5});
  const auto alone = normal_noise(3, 17, 1, {3, 5});
  EXPECT_TRUE(torch::equal(all[17], alone[0]));
  EXPECT_FALSE(torch::equal(all[17], all[16]));
  EXPECT_FALSE(torch::equal(all[17], normal_noise(4, 17, 1, {3, 5})[0]));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(torch::equal(all, normal_noise(3, 0, 20, {3, 5})));
  at::set_num_threads(threads);
}

TEST(Noise, IsStandardNormal) {
  const auto noise = normal_noise(1, 0, 1000, {1000});
  const double n = 1e6;
  EXPECT_NEAR(noise.mean().item<double>(), 0, 5 / std::sqrt(n));
  EXPECT_NEAR(noise.pow(2).mean().item<double>(), 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(noise.pow(3).mean().item<double>(), 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(noise.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / n));
  // Neighbouring entries come from one Box-Muller pair and must be independent.
  const auto pairs = noise.reshape({-1, 2});
  const double correlation = (pairs.select(1, 0) * pairs.select(1, 1)).mean().item<double>();
  EXPECT_NEAR(correlation, 0, 5 / std::sqrt(n / 2));
}

}  // namespace
}  // namespace bespoke
