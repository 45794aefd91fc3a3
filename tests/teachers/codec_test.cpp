// The audio codec: what its frames depend on, and its loss.

#include <gtest/gtest.h>

#include "bespoke/base/error.h"
#include "teachers/audio_codec.h"
#include "teachers/objective.h"

namespace bespoke {
namespace {

const NetworkShape kSecond = {{1, 960}, 1};

// Whose blocks, which begin as nothing, have learned something.
std::shared_ptr<Autoencoder> small_codec(const CodecOptions& options) {
  torch::manual_seed(2);
  const auto codec = make_audio_codec(kSecond, options);
  torch::NoGradGuard no_grad;
  for (auto& parameter : codec->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  return codec;
}

TEST(AudioCodec, HasTheShapesItSays) {
  for (const CodecOptions& options :
       {CodecOptions{4, 3, {4, 5}}, CodecOptions{4, 2, {2, 3, 4}}, CodecOptions{2, 5, {8}}}) {
    const auto codec = small_codec(options);
    const torch::Tensor x = torch::randn({2, 1, 960});
    const torch::Tensor z = codec->encoder().forward(x);
    EXPECT_EQ(codec->latent_shape(), (std::vector<int64_t>{options.latents, 960 / options.hop()}));
    EXPECT_EQ(z.sizes().slice(1), torch::IntArrayRef(codec->latent_shape()));
    EXPECT_EQ(codec->decoder().forward(z).sizes(), x.sizes());
  }
}

TEST(AudioCodec, NoticesAGapOnlyWithinItsMargin) {
  for (const CodecOptions& options : {CodecOptions{4, 3, {4, 5}}, CodecOptions{4, 3, {4, 4, 5}}}) {
    const auto codec = small_codec(options);
    const int64_t hop = options.hop(), margin = options.margin();
    const torch::Tensor x = torch::randn({1, 1, 960});
    torch::Tensor gapped = x.clone();
    const int64_t first = 5 * hop, last = 6 * hop;
    gapped.slice(2, first, last).zero_();
    const torch::Tensor change =
        (codec->encoder().forward(gapped) - codec->encoder().forward(x)).abs().amax({0, 1});
    for (int64_t frame = 0; frame < change.size(0); ++frame) {
      const bool near = frame >= 5 - margin && frame < 6 + margin;
      EXPECT_TRUE(near || change[frame].item<double>() == 0) << frame;
    }
    EXPECT_GT(change[5 - margin].item<double>(), 0) << "no wider than it must be";
  }
}

TEST(AudioCodec, RefusesWhatItCannotDivide) {
  EXPECT_THROW(make_audio_codec({{1, 1000}, 1}, {4, 3, {4, 4}}), Error);
  EXPECT_THROW(make_audio_codec({{3, 8, 8}, 1}, {4, 3, {4, 4}}), Error);
}

TEST(CodecLoss, FallsWhenItIsFollowed) {
  const CodecOptions options = {4, 4, {4, 5}};
  const auto codec = small_codec(options);
  const Loss loss = codec_loss(codec, options.hop(), torch::kCPU, torch::kFloat);
  const torch::Tensor t = torch::arange(960) / 8000.;
  const Batch batch = {0.2 * (2764 * t).sin().expand({4, 1, 960}).contiguous(),
                       torch::zeros({4}, torch::kLong)};
  torch::optim::Adam adam(codec->parameters(), 0.01);
  torch::manual_seed(3);
  const double before = loss(batch).item<double>();
  for (int i = 0; i < 60; ++i) {
    adam.zero_grad();
    loss(batch).backward();
    adam.step();
  }
  EXPECT_LT(loss(batch).item<double>(), 0.7 * before);
}

}  // namespace
}  // namespace bespoke
