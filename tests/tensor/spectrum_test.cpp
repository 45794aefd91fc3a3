#include "bespoke/tensor/spectrum.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace bespoke {
namespace {

torch::Tensor tone(double cycles_per_sample, int64_t length) {
  return (2 * std::acos(-1.0) * cycles_per_sample * torch::arange(length, torch::kDouble))
      .sin()
      .to(torch::kFloat);
}

TEST(Spectrum, OfAToneIsAtItsPitch) {
  const torch::Tensor power = power_spectrum(tone(20. / 128, 1000), fourier_basis(128), 32);
  EXPECT_EQ(power.sizes(), torch::IntArrayRef({(1000 - 128) / 32 + 1, 65}));
  EXPECT_TRUE(power.argmax(1).eq(20).all().item<bool>());
  // A Hann window of a sine: |X| = size / 4 at its pitch.
  EXPECT_NEAR(power[3][20].item<double>(), 32 * 32, 1);
  EXPECT_LT(power[3][40].item<double>(), 1e-3);
}

TEST(Spectrum, KeepsTheDimensionsBeforeTime) {
  torch::manual_seed(0);
  const torch::Tensor x = torch::randn({2, 3, 400});
  const torch::Tensor all = power_spectrum(x, fourier_basis(64), 16);
  EXPECT_EQ(all.size(0), 2);
  EXPECT_EQ(all.size(1), 3);
  const torch::Tensor one = power_spectrum(x[1][2], fourier_basis(64), 16);
  EXPECT_LT((all[1][2] - one).abs().max().item<double>(), 1e-4 * one.max().item<double>());
}

TEST(Spectrum, MelBandsCoverAllPitchesAndWiden) {
  const torch::Tensor bands = mel_bands(129, 32, 8000);
  EXPECT_EQ(bands.sizes(), torch::IntArrayRef({129, 32}));
  EXPECT_GE(bands.min().item<double>(), 0);
  EXPECT_LE(bands.max().item<double>(), 1);
  const torch::Tensor widths = bands.gt(0).sum(0);
  EXPECT_GE(widths.min().item<int64_t>(), 1) << "no band is empty";
  EXPECT_GT(widths[31].item<int64_t>(), 3 * widths[0].item<int64_t>());
}

}  // namespace
}  // namespace bespoke
