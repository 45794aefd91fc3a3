#include "teachers/audio_codec.h"

#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "bespoke/base/error.h"
#include "teachers/zeroed.h"

namespace bespoke {

namespace {

namespace nn = torch::nn;

constexpr int64_t kEnds = 7, kFrames = 3;  // what the first and the last convolution see
constexpr int64_t kDilations[] = {1, 3};
constexpr double kLoudness = 0.1;  // about that of speech, which the layers are given as 1

// With weights by which what leaves a layer is as large as what enters it: nothing here is
// normalised, and the usual ones would make frames too small to be heard above their noise.
template <class Layer>
Layer level_keeping(Layer layer, double terms) {
  torch::nn::init::normal_(layer->weight, 0, 1 / std::sqrt(terms));
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

nn::Conv1d same_length(int64_t in, int64_t out, int64_t window, int64_t dilation = 1) {
  return level_keeping(
      nn::Conv1d(
          nn::Conv1dOptions(in, out, window).padding(dilation * (window / 2)).dilation(dilation)),
      static_cast<double>(in * window));
}

// Windows that reach so far beyond the samples they stand for, and lengths divide exactly.
int64_t overlap(int64_t stride) { return (stride + 1) / 2; }

nn::Conv1d shorten(int64_t in, int64_t out, int64_t stride) {
  const int64_t beyond = overlap(stride), window = stride + 2 * beyond;
  return level_keeping(
      nn::Conv1d(nn::Conv1dOptions(in, out, window).stride(stride).padding(beyond)),
      static_cast<double>(in * window));
}

nn::ConvTranspose1d lengthen(int64_t in, int64_t out, int64_t stride) {
  const int64_t beyond = overlap(stride), window = stride + 2 * beyond;
  return level_keeping(
      nn::ConvTranspose1d(
          nn::ConvTranspose1dOptions(in, out, window).stride(stride).padding(beyond)),
      static_cast<double>(in * window) / static_cast<double>(stride));
}

// x plus what two convolutions make of it, which begin as nothing.
class WaveBlock : public nn::Module {
 public:
  WaveBlock(int64_t channels, int64_t dilation) {
    wide_ = register_module("wide", same_length(channels, channels, 3, dilation));
    mix_ = register_module("mix", zeroed(same_length(channels, channels, 1)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return x + mix_(torch::elu(wide_(torch::elu(x))));
  }

 private:
  nn::Conv1d wide_ = nullptr, mix_ = nullptr;
};

// The blocks of a level, one after another.
class WaveLevel : public nn::Module {
 public:
  explicit WaveLevel(int64_t channels) {
    for (const int64_t dilation : kDilations) {
      blocks_.push_back(register_module("block" + std::to_string(dilation),
                                        std::make_shared<WaveBlock>(channels, dilation)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (const auto& block : blocks_) x = block->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<WaveBlock>> blocks_;
};

class SoundEncoder : public AutoencoderHalf {
 public:
  SoundEncoder(int64_t in, const CodecOptions& options) {
    int64_t channels = options.channels;
    enter_ = register_module("enter", same_length(in, channels, kEnds));
    for (const int64_t stride : options.strides) {
      const std::string name = std::to_string(levels_.size());
      levels_.push_back(register_module("level" + name, std::make_shared<WaveLevel>(channels)));
      shorten_.push_back(
          register_module("shorten" + name, shorten(channels, 2 * channels, stride)));
      channels *= 2;
    }
    leave_ = register_module("leave", same_length(channels, options.latents, kFrames));
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor h = enter_(x / kLoudness);
    for (size_t i = 0; i < levels_.size(); ++i) {
      h = shorten_[i](torch::elu(levels_[i]->forward(h)));
    }
    return leave_(torch::elu(h));
  }

 private:
  nn::Conv1d enter_ = nullptr, leave_ = nullptr;
  std::vector<std::shared_ptr<WaveLevel>> levels_;
  std::vector<nn::Conv1d> shorten_;
};

class SoundDecoder : public AutoencoderHalf {
 public:
  SoundDecoder(int64_t out, const CodecOptions& options) {
    int64_t channels = options.channels << options.strides.size();
    enter_ = register_module("enter", same_length(options.latents, channels, kEnds));
    for (auto stride = options.strides.rbegin(); stride != options.strides.rend(); ++stride) {
      const std::string name = std::to_string(levels_.size());
      lengthen_.push_back(
          register_module("lengthen" + name, lengthen(channels, channels / 2, *stride)));
      channels /= 2;
      levels_.push_back(register_module("level" + name, std::make_shared<WaveLevel>(channels)));
    }
    leave_ = register_module("leave", same_length(channels, out, kEnds));
  }

  torch::Tensor forward(const torch::Tensor& z) override {
    torch::Tensor h = enter_(z);
    for (size_t i = 0; i < levels_.size(); ++i) {
      h = levels_[i]->forward(lengthen_[i](torch::elu(h)));
    }
    return kLoudness * leave_(torch::elu(h));
  }

 private:
  nn::Conv1d enter_ = nullptr, leave_ = nullptr;
  std::vector<nn::ConvTranspose1d> lengthen_;
  std::vector<std::shared_ptr<WaveLevel>> levels_;
};

}  // namespace

int64_t CodecOptions::hop() const {
  return std::accumulate(strides.begin(), strides.end(), int64_t{1}, std::multiplies<>());
}

int64_t CodecOptions::margin() const {
  int64_t reach = kEnds / 2, step = 1;  // in samples, and how many one step of a level is
  for (const int64_t stride : strides) {
    for (const int64_t dilation : kDilations) reach += step * dilation;
    reach += step * overlap(stride);
    step *= stride;
  }
  reach += step * (kFrames / 2);
  return (reach + step - 1) / step;
}

std::shared_ptr<Autoencoder> make_audio_codec(const NetworkShape& shape,
                                              const CodecOptions& options) {
  if (!shape.is_sound()) {
    throw usage_error("--network audio-codec is for sounds; of images, train an autoencoder");
  }
  const int64_t length = shape.sample[1];
  if (length % options.hop() != 0) {
    throw bad_input(
        "strides of {} make frames of {} samples, which do not divide {}; choose "
        "others or another --size",
        fmt::join(options.strides, " x "), options.hop(), length);
  }
  return std::make_shared<Autoencoder>(
      std::vector<int64_t>{options.latents, length / options.hop()},
      std::make_shared<SoundEncoder>(shape.sample[0], options),
      std::make_shared<SoundDecoder>(shape.sample[0], options));
}

}  // namespace bespoke
