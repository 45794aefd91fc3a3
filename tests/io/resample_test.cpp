#include "bespoke/io/resample.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace bespoke {
namespace {

torch::Tensor hum(double hertz, double rate, int64_t length) {
  return (2 * std::acos(-1.0) * hertz / rate * torch::arange(length, torch::kDouble))
      .sin()
      .to(torch::kFloat);
}

TEST(Resample, KeepsWhatBothRatesHold) {
  for (const int64_t from : {8000, 11025, 16000, 22050, 44100, 48000}) {
    const torch::Tensor there = resample(hum(600, static_cast<double>(from), from), from, 8000);
    ASSERT_EQ(there.size(0), 8000) << from;
    const torch::Tensor expected = hum(600, 8000, 8000);
    const torch::Tensor difference = (there - expected).slice(0, 100, 7900);
    EXPECT_LT(difference.abs().max().item<double>(), 2e-3) << from;
  }
  const torch::Tensor up = resample(hum(600, 8000, 8000), 8000, 44100);
  EXPECT_LT((up - hum(600, 44100, 44100)).slice(0, 600, 43500).abs().max().item<double>(), 2e-3);
}

TEST(Resample, LeavesOutWhatTheLowerRateCannotHold) {
  const torch::Tensor there = resample(hum(6000, 44100, 44100), 44100, 8000);
  EXPECT_LT(there.slice(0, 100, 7900).abs().max().item<double>(), 1e-2);
}

TEST(Resample, TakesAnyNumberOfChannels) {
  const torch::Tensor sound = torch::randn({2, 1001});
  EXPECT_TRUE(torch::equal(resample(sound, 8000, 8000), sound));
  const torch::Tensor both = resample(sound, 16000, 8000);
  EXPECT_EQ(both.sizes(), torch::IntArrayRef({2, 501}));
  EXPECT_TRUE(torch::equal(both[1], resample(sound[1], 16000, 8000)));
}

}  // namespace
}  // namespace bespoke
