// Windows around gaps, what is known of them, and how they are put back.

#include "bespoke/recipe/infill.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "../refusal.h"

namespace bespoke {
namespace {

using testing::refusal;

// Frames of ten samples, sixteen of them, at 100 Hz: windows of 1.6 s.
ModelCard gap_card() {
  ModelCard card;
  card.sample_shape = {2, 16};
  card.sample_rate = 100;
  card.decoder = DecoderCard();
  card.decoder->sample_shape = {1, 160};
  card.encoder = EncoderCard();
  card.encoder->margin = 2;
  card.encoder->level = 0.1;
  return card;
}

torch::Tensor loud(int64_t length) {
  torch::manual_seed(1);
  return 0.5 * torch::randn({length});
}

TEST(InfillWindow, LiesAroundTheGapWithinTheSound) {
  const torch::Tensor sound = loud(1000);
  const InfillWindow middle = window_around(sound, {480, 520}, gap_card());
  EXPECT_EQ(middle.begin, 420);
  EXPECT_EQ(middle.gap.begin, 60);
  EXPECT_EQ(middle.gap.end, 100);
  EXPECT_EQ(middle.sound.size(0), 160);
  EXPECT_EQ(window_around(sound, {10, 30}, gap_card()).begin, 0);
  EXPECT_EQ(window_around(sound, {970, 1000}, gap_card()).begin, 840);
  const InfillWindow whole = window_around(sound.slice(0, 0, 100), {20, 40}, gap_card());
  EXPECT_EQ(whole.begin, 0);
  EXPECT_EQ(whole.heard, 100);
  EXPECT_EQ(whole.sound.slice(0, 100).abs().max().item<double>(), 0) << "padded with silence";
}

TEST(InfillWindow, IsAtTheLevelOfWhatIsHeardAroundTheGap) {
  torch::Tensor sound = loud(160);
  sound.slice(0, 40, 80) *= 50;
  const InfillWindow window = window_around(sound, {40, 80}, gap_card());
  const torch::Tensor around =
      torch::cat({window.sound.slice(0, 0, 40), window.sound.slice(0, 80)});
  EXPECT_NEAR(around.square().mean().sqrt().item<double>(), 0.1, 1e-6);
  EXPECT_NEAR(window.gain * sound[0].item<double>(), window.sound[0].item<double>(), 1e-6);
  ModelCard as_it_is = gap_card();
  as_it_is.encoder->level = 0;
  EXPECT_EQ(window_around(sound, {40, 80}, as_it_is).gain, 1);
}

TEST(InfillWindow, RefusesGapsThatAreNone) {
  const auto refused = [](const torch::Tensor& sound, const Gap& gap, const std::string& why) {
    const std::string found = refusal([&] { window_around(sound, gap, gap_card()); });
    EXPECT_NE(found.find(why), std::string::npos) << found;
  };
  refused(loud(300), {50, 50}, "the span 0.5-0.5 s is empty");
  refused(loud(300), {250, 310}, "the span 2.5-3.1 s is not in the sound, which has 3 s");
  refused(loud(300), {-10, 20}, "is not in the sound");
  refused(loud(300), {50, 250}, "the span has 2 s; the model fills less than 1.6 s at a time");
  refused(torch::zeros({300}), {100, 150}, "nothing is heard around the span");
  torch::Tensor only_gap = torch::zeros({300});
  only_gap.slice(0, 100, 150) += 1;
  refused(only_gap, {100, 150}, "nothing is heard around the span");
}

TEST(KnownFrames, AreThoseTheEncoderSeesNothingOfTheGapIn) {
  const torch::Tensor known = known_frames({60, 75}, gap_card());
  EXPECT_EQ(known.sizes(), torch::IntArrayRef({1, 16}));
  for (int64_t frame = 0; frame < 16; ++frame) {
    EXPECT_EQ(known[0][frame].item<float>(), frame < 4 || frame >= 10 ? 1 : 0) << frame;
  }
  EXPECT_EQ(known_frames({0, 160}, gap_card()).sum().item<float>(), 0);
}

TEST(WithKnown, KeepsSamplesInTheGapAlone) {
  const torch::Tensor x = torch::randn({2, 3, 4}), known = torch::zeros({2, 1, 4});
  known.slice(2, 0, 2) += 1;
  const torch::Tensor visible = torch::randn({2, 3, 4}) * known;
  const torch::Tensor put = with_known(x, {{kVisible, visible}, {kKnown, known}});
  EXPECT_TRUE(torch::equal(put.slice(2, 0, 2), visible.slice(2, 0, 2)));
  EXPECT_TRUE(torch::equal(put.slice(2, 2), x.slice(2, 2)));
}

TEST(Spliced, FadesBesideTheGapAndLeavesTheRestAlone) {
  const torch::Tensor sound = loud(200), filled = torch::ones({200});
  const torch::Tensor out = spliced(sound, filled, {80, 120}, 10);
  EXPECT_TRUE(torch::equal(out.slice(0, 0, 70), sound.slice(0, 0, 70)));
  EXPECT_TRUE(torch::equal(out.slice(0, 130), sound.slice(0, 130)));
  EXPECT_TRUE(torch::equal(out.slice(0, 80, 120), filled.slice(0, 80, 120)));
  // Between them, nearer to the one that is nearer.
  const auto share = [&](int64_t i) {
    const auto from = sound[i].item<double>();
    return (out[i].item<double>() - from) / (1 - from);
  };
  EXPECT_GT(share(79), 0.9);
  EXPECT_LT(share(71), 0.1);
  EXPECT_GT(share(120), 0.9);
  EXPECT_LT(share(128), 0.1);
}

}  // namespace
}  // namespace bespoke
