#include "bespoke/report/spectrogram.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace bespoke {
namespace {

TEST(Spectrogram, IsBrightAtThePitchAndMarksTheSpan) {
  const torch::Tensor t = torch::arange(8000, torch::kFloat) / 8000;
  const torch::Tensor sound = (2 * static_cast<float>(M_PI) * 1000 * t).sin();
  const torch::Tensor image = spectrogram_image(sound, 8000);
  ASSERT_EQ(image.dim(), 3);
  EXPECT_EQ(image.size(0), 3);
  EXPECT_EQ(image.size(1), 128);
  // 1000 of 4000 Hz from the bottom: the middle column is lightest there.
  const torch::Tensor column = image.to(torch::kLong).sum(0).select(1, image.size(2) / 2);
  EXPECT_NEAR(static_cast<double>(column.argmax().item<int64_t>()), 96, 1);
  const torch::Tensor marked = spectrogram_image(sound, 8000, TimeSpan{0.25, 0.5});
  EXPECT_FALSE(torch::equal(image, marked));
  const int64_t width = image.size(2);
  EXPECT_TRUE(torch::equal(image.slice(2, 0, width / 4 - 1), marked.slice(2, 0, width / 4 - 1)));
  EXPECT_TRUE(torch::equal(image.slice(2, width / 2 + 2), marked.slice(2, width / 2 + 2)));
}

TEST(Spectrogram, OfSilenceIsAPictureToo) {
  EXPECT_EQ(spectrogram_image(torch::zeros({100}), 8000).size(0), 3);
}

}  // namespace
}  // namespace bespoke
