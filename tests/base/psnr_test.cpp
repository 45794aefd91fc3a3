#include "bespoke/base/psnr.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

TEST(Psnr, MatchesItsDefinition) {
  EXPECT_NEAR(psnr(0.04), 20, 1e-12);  // peak-to-peak 2: 10 log10(4 / 0.04)
  EXPECT_NEAR(psnr(1, 255), 48.1308, 1e-4);
  EXPECT_TRUE(std::isinf(psnr(0)));
  const auto a = torch::zeros({2, 3, 4}), b = torch::zeros({2, 3, 4});
  b[0].fill_(0.2);
  b[1].fill_(0.02);
  const auto errors = mean_squared_errors(a, b);
  EXPECT_NEAR(errors[0], 0.04, 1e-8);
  EXPECT_NEAR(errors[1], 0.0004, 1e-9);
  EXPECT_NEAR(mean_psnr(a, b), (20 + 40) / 2., 1e-4);  // of decibels, not of errors
  EXPECT_THROW(mean_squared_errors(a, torch::zeros({2, 3, 5})), Error);
}

TEST(Snr, IsTheMeanOfTheRatiosInDecibels) {
  EXPECT_NEAR(mean_snr({0.01, 0.1}, {1, 1}), 15, 1e-12);
  EXPECT_NEAR(mean_snr({0.5}, {5}), 10, 1e-12);
}

TEST(Quantile, IsLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.05), 0.5);
  EXPECT_DOUBLE_EQ(quantile({4}, 0.95), 4);
}

}  // namespace
}  // namespace bespoke
