#include "teachers/autoencoder.h"

#include <fmt/format.h>

#include "bespoke/base/error.h"
#include "teachers/convolution.h"
#include "teachers/zeroed.h"

namespace bespoke {

namespace nn = torch::nn;

namespace {

constexpr Window kImage{true};

}  // namespace

// x plus two convolutions of it, which begin as nothing.
class Autoencoder::Block : public nn::Module {
 public:
  explicit Block(int64_t channels) {
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

Autoencoder::Autoencoder(const NetworkShape& shape, const AutoencoderOptions& options) {
  if (shape.is_sound()) throw usage_error("the autoencoder is for images; the data holds sounds");
  const int64_t factor = int64_t{1} << options.levels;
  latent_shape_ = {options.latents};
  for (const size_t side : {1, 2}) {
    if (shape.sample[side] % factor != 0) {
      throw bad_input("{} levels do not halve images of {}; choose fewer levels or another size",
                      options.levels, shape.sample[side]);
    }
    latent_shape_.push_back(shape.sample[side] / factor);
  }
  int64_t channels = options.channels;
  enter_ = register_module("enter", convolution(kImage, shape.sample[0], channels));
  for (int64_t level = 0; level < options.levels; ++level) {
    const int64_t wider = 2 * channels;
    down_.push_back(
        register_module(fmt::format("down{}", level), convolution(kImage, channels, wider, 2)));
    down_blocks_.push_back(
        register_module(fmt::format("down_block{}", level), std::make_shared<Block>(wider)));
    channels = wider;
  }
  code_ = register_module("code", convolution(kImage, channels, options.latents));
  uncode_ = register_module("uncode", convolution(kImage, options.latents, channels));
  for (int64_t level = 0; level < options.levels; ++level) {
    up_blocks_.push_back(
        register_module(fmt::format("up_block{}", level), std::make_shared<Block>(channels)));
    up_.push_back(
        register_module(fmt::format("up{}", level), convolution(kImage, channels, channels / 2)));
    channels /= 2;
  }
  up_blocks_.push_back(register_module("up_block_last", std::make_shared<Block>(channels)));
  norm_ = register_module("norm", group_norm(channels));
  leave_ = register_module("leave", convolution(kImage, channels, shape.sample[0]));
}

torch::Tensor Autoencoder::encode(const torch::Tensor& x) {
  torch::Tensor h = enter_(x);
  for (size_t i = 0; i < down_.size(); ++i) h = down_blocks_[i]->forward(down_[i](h));
  return code_(torch::silu(h));
}

torch::Tensor Autoencoder::decode(const torch::Tensor& z) {
  torch::Tensor h = uncode_(z);
  for (size_t i = 0; i < up_.size(); ++i) {
    const torch::Tensor mixed = up_blocks_[i]->forward(h);
    h = up_[i](torch::upsample_nearest2d(mixed, {2 * mixed.size(2), 2 * mixed.size(3)}));
  }
  return leave_(torch::silu(norm_(up_blocks_.back()->forward(h))));
}

}  // namespace bespoke
