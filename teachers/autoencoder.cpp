#include "teachers/autoencoder.h"

#include <fmt/format.h>

#include "bespoke/base/error.h"
#include "teachers/convolution.h"
#include "teachers/zeroed.h"

namespace bespoke {

namespace {

namespace nn = torch::nn;

constexpr Window kImage{true};

// x plus two convolutions of it, which begin as nothing.
class PlainBlock : public nn::Module {
 public:
  explicit PlainBlock(int64_t channels) {
    norm1_ = register_module("norm1", group_norm(channels));
    conv1_ = register_module("conv1", convolution(kImage, channels, channels));
    norm2_ = register_module("norm2", group_norm(channels));
    conv2_ = register_module("conv2", zeroed(convolution(kImage, channels, channels)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor first = conv1_(torch::silu(norm1_(x)));
    return x + conv2_(torch::silu(norm2_(first)));
  }

 private:
  nn::GroupNorm norm1_ = nullptr, norm2_ = nullptr;
  nn::Conv2d conv1_ = nullptr, conv2_ = nullptr;
};

class ImageEncoder : public AutoencoderHalf {
 public:
  ImageEncoder(int64_t in, const AutoencoderOptions& options) {
    int64_t channels = options.channels;
    enter_ = register_module("enter", convolution(kImage, in, channels));
    for (int64_t level = 0; level < options.levels; ++level, channels *= 2) {
      down_.push_back(register_module(fmt::format("down{}", level),
                                      convolution(kImage, channels, 2 * channels, 2)));
      blocks_.push_back(register_module(fmt::format("block{}", level),
                                        std::make_shared<PlainBlock>(2 * channels)));
    }
    leave_ = register_module("leave", convolution(kImage, channels, options.latents));
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor h = enter_(x);
    for (size_t i = 0; i < down_.size(); ++i) h = blocks_[i]->forward(down_[i](h));
    return leave_(torch::silu(h));
  }

 private:
  nn::Conv2d enter_ = nullptr, leave_ = nullptr;
  std::vector<nn::Conv2d> down_;
  std::vector<std::shared_ptr<PlainBlock>> blocks_;
};

class ImageDecoder : public AutoencoderHalf {
 public:
  ImageDecoder(int64_t out, const AutoencoderOptions& options) {
    int64_t channels = options.channels << options.levels;
    enter_ = register_module("enter", convolution(kImage, options.latents, channels));
    for (int64_t level = 0; level < options.levels; ++level, channels /= 2) {
      blocks_.push_back(
          register_module(fmt::format("block{}", level), std::make_shared<PlainBlock>(channels)));
      up_.push_back(
          register_module(fmt::format("up{}", level), convolution(kImage, channels, channels / 2)));
    }
    last_ = register_module("last", std::make_shared<PlainBlock>(channels));
    norm_ = register_module("norm", group_norm(channels));
    leave_ = register_module("leave", convolution(kImage, channels, out));
  }

  torch::Tensor forward(const torch::Tensor& z) override {
    torch::Tensor h = enter_(z);
    for (size_t i = 0; i < up_.size(); ++i) {
      const torch::Tensor mixed = blocks_[i]->forward(h);
      h = up_[i](torch::upsample_nearest2d(mixed, {2 * mixed.size(2), 2 * mixed.size(3)}));
    }
    return leave_(torch::silu(norm_(last_->forward(h))));
  }

 private:
  nn::Conv2d enter_ = nullptr, leave_ = nullptr;
  std::vector<nn::Conv2d> up_;
  std::vector<std::shared_ptr<PlainBlock>> blocks_;
  std::shared_ptr<PlainBlock> last_;
  nn::GroupNorm norm_ = nullptr;
};

}  // namespace

Autoencoder::Autoencoder(std::vector<int64_t> latent_shape,
                         std::shared_ptr<AutoencoderHalf> encoder,
                         std::shared_ptr<AutoencoderHalf> decoder)
    : latent_shape_(std::move(latent_shape)),
      encoder_(register_module("encoder", std::move(encoder))),
      decoder_(register_module("decoder", std::move(decoder))) {}

std::shared_ptr<Autoencoder> make_autoencoder(const NetworkShape& shape,
                                              const AutoencoderOptions& options) {
  if (shape.is_sound()) {
    throw usage_error("--network autoencoder is for images; of sounds, train an audio-codec");
  }
  const int64_t factor = int64_t{1} << options.levels;
  std::vector<int64_t> latent_shape = {options.latents};
  for (const size_t side : {1, 2}) {
    if (shape.sample[side] % factor != 0) {
      throw bad_input("{} levels do not halve images of {}; choose fewer levels or another size",
                      options.levels, shape.sample[side]);
    }
    latent_shape.push_back(shape.sample[side] / factor);
  }
  return std::make_shared<Autoencoder>(latent_shape,
                                       std::make_shared<ImageEncoder>(shape.sample[0], options),
                                       std::make_shared<ImageDecoder>(shape.sample[0], options));
}

}  // namespace bespoke
