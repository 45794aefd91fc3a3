#include "bespoke/base/psnr.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bespoke {
namespace {

TEST(Psnr, MatchesItsDefinition) {
  EXPECT_NEAR(psnr(0.04), 20, 1e-12);  // peak-to-peak 2: 10 log10(4 / 0.04)
  EXPECT_NEAR(psnr(1, 255), 48.1308, 1e-4);
  EXPECT_TRUE(std::isinf(psnr(0)));
  EXPECT_NEAR(mean_psnr({0.04, 0.0004}), (20 + 40) / 2., 1e-12);  // of decibels, not of errors
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

// Ten decibels apart, two samples have a mean that may be off by five.
TEST(Psnr, TheErrorOfAMeanIsTheSpreadOverTheRootOfTheCount) {
  EXPECT_NEAR(psnr_error({0, std::log(10.0)}), 5, 1e-12);
  EXPECT_NEAR(psnr_error({0, std::log(10.0), 0, std::log(10.0)}), 5 / std::sqrt(3), 1e-12);
  EXPECT_EQ(psnr_error({1.5}), 0);
}

}  // namespace
}  // namespace bespoke
