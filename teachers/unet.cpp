#include "teachers/unet.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "teachers/convolution.h"
#include "teachers/embedding.h"
#include "teachers/zeroed.h"

namespace bespoke {

namespace {

namespace nn = torch::nn;

nn::Conv2d pointwise(int64_t in, int64_t out) { return nn::Conv2d(nn::Conv2dOptions(in, out, 1)); }

class ResidualBlock : public nn::Module {
 public:
  ResidualBlock(Window window, int64_t in, int64_t out, int64_t embedding) : out_(out) {
    norm1_ = register_module("norm1", group_norm(in));
    conv1_ = register_module("conv1", convolution(window, in, out));
    modulation_ = register_module("modulation", nn::Linear(embedding, 2 * out));
    norm2_ = register_module("norm2", group_norm(out));
    conv2_ = register_module("conv2", zeroed(convolution(window, out, out)));
    if (in != out) skip_ = register_module("skip", pointwise(in, out));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& condition) {
    const auto m = modulation_(condition).reshape({-1, 2, out_, 1, 1}).unbind(1);
    const torch::Tensor first = conv1_(torch::silu(norm1_(x)));
    const torch::Tensor second = torch::addcmul(m[0], norm2_(first), 1 + m[1]);
    return (skip_.is_empty() ? x : skip_(x)) + conv2_(torch::silu(second));
  }

 private:
  int64_t out_;
  nn::GroupNorm norm1_ = nullptr, norm2_ = nullptr;
  nn::Conv2d conv1_ = nullptr, conv2_ = nullptr, skip_ = nullptr;
  nn::Linear modulation_ = nullptr;
};

class PixelAttention : public nn::Module {
 public:
  explicit PixelAttention(int64_t channels) : channels_(channels) {
    norm_ = register_module("norm", group_norm(channels));
    inputs_ = register_module("inputs", pointwise(channels, 3 * channels));
    output_ = register_module("output", zeroed(pointwise(channels, channels)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const int64_t height = x.size(2), width = x.size(3);
    const auto parts = inputs_(norm_(x)).reshape({-1, 3, channels_, height * width}).unbind(1);
    const double scale = 1 / std::sqrt(static_cast<double>(channels_));
    const torch::Tensor weights =
        torch::softmax(torch::matmul(parts[0].transpose(1, 2) * scale, parts[1]), -1);
    return x + output_(torch::matmul(parts[2], weights.transpose(1, 2))
                           .reshape({-1, channels_, height, width}));
  }

 private:
  int64_t channels_;
  nn::GroupNorm norm_ = nullptr;
  nn::Conv2d inputs_ = nullptr, output_ = nullptr;
};

// A residual block and, at the chosen resolutions, attention after it.
class Stage : public nn::Module {
 public:
  Stage(Window window, int64_t in, int64_t out, int64_t embedding, bool attends) {
    block_ = register_module("block", std::make_shared<ResidualBlock>(window, in, out, embedding));
    if (attends) attention_ = register_module("attention", std::make_shared<PixelAttention>(out));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& condition) {
    const torch::Tensor mixed = block_->forward(x, condition);
    return attention_ ? attention_->forward(mixed) : mixed;
  }

 private:
  std::shared_ptr<ResidualBlock> block_;
  std::shared_ptr<PixelAttention> attention_;
};

class UNet : public TeacherNetwork {
 public:
  UNet(const NetworkShape& shape, const UNetOptions& options)
      : shape_(shape), options_(options), window_{!shape.is_sound()}, width_(shape.sample.back()) {
    const int64_t channels = options.channels;
    condition_ =
        register_module("condition", std::make_shared<ConditionEmbedding>(embedding(), shape));
    enter_ = register_module("enter", convolution(window_, shape.sample[0], channels));
    skips_ = {channels};
    build_down();
    const int64_t deepest = skips_.back();
    middle1_ = register_module("middle1", stage(deepest, deepest, true));
    middle2_ = register_module("middle2", stage(deepest, deepest, false));
    build_up();
    norm_ = register_module("norm", group_norm(channels));
    leave_ = register_module("leave", zeroed(convolution(window_, channels, shape.sample[0])));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& t,
                        const torch::Tensor& y) override {
    const torch::Tensor condition = torch::silu(condition_->forward(t, y));
    std::vector<torch::Tensor> skips = {enter_(shape_.is_sound() ? x.unsqueeze(2) : x)};
    for (size_t level = 0; level < down_.size(); ++level) {
      if (level > 0) skips.push_back(shrink_[level - 1](skips.back()));
      for (const auto& stage : down_[level])
        skips.push_back(stage->forward(skips.back(), condition));
    }
    torch::Tensor h = middle2_->forward(middle1_->forward(skips.back(), condition), condition);
    for (size_t level = 0; level < up_.size(); ++level) {
      for (const auto& stage : up_[level]) {
        h = stage->forward(torch::cat({h, skips.back()}, 1), condition);
        skips.pop_back();
      }
      if (level + 1 < up_.size()) h = grow_[level](enlarge(h));
    }
    const torch::Tensor out = leave_(torch::silu(norm_(h)));
    return shape_.is_sound() ? out.squeeze(2) : out;
  }

 private:
  using Stages = std::vector<std::shared_ptr<Stage>>;

  int64_t embedding() const { return 4 * options_.channels; }

  std::shared_ptr<Stage> stage(int64_t in, int64_t out, bool attends) const {
    return std::make_shared<Stage>(window_, in, out, embedding(), attends);
  }

  bool attends() const {
    const auto& at = options_.attention;
    return std::find(at.begin(), at.end(), width_) != at.end();
  }

  void build_down() {
    const size_t levels = options_.multipliers.size();
    down_.resize(levels);
    for (size_t level = 0; level < levels; ++level) {
      const std::string name = "down" + std::to_string(level) + "_";
      if (level > 0) {
        width_ /= 2;
        const int64_t channels = skips_.back();
        shrink_.push_back(
            register_module(name + "shrink", convolution(window_, channels, channels, 2)));
        skips_.push_back(channels);
      }
      const int64_t out = options_.channels * options_.multipliers[level];
      for (int64_t i = 0; i < options_.blocks; ++i) {
        down_[level].push_back(
            register_module(name + std::to_string(i), stage(skips_.back(), out, attends())));
        skips_.push_back(out);
      }
    }
  }

  // One stage more a level than on the way down: each skip is taken up once.
  void build_up() {
    int64_t in = skips_.back();
    for (size_t level = options_.multipliers.size(); level-- > 0;) {
      const std::string name = "up" + std::to_string(level) + "_";
      const int64_t out = options_.channels * options_.multipliers[level];
      Stages stages;
      for (int64_t i = 0; i <= options_.blocks; ++i) {
        stages.push_back(
            register_module(name + std::to_string(i), stage(in + skips_.back(), out, attends())));
        skips_.pop_back();
        in = out;
      }
      up_.push_back(stages);
      if (level > 0) {
        grow_.push_back(register_module(name + "grow", convolution(window_, in, in)));
        width_ *= 2;
      }
    }
  }

  torch::Tensor enlarge(const torch::Tensor& x) const {
    const int64_t rows = window_.rows ? 2 : 1;
    return torch::upsample_nearest2d(x, {rows * x.size(2), 2 * x.size(3)});
  }

  NetworkShape shape_;
  UNetOptions options_;
  Window window_;
  int64_t width_;               // of the level being built
  std::vector<int64_t> skips_;  // channels of the skips not yet taken up
  std::shared_ptr<ConditionEmbedding> condition_;
  nn::Conv2d enter_ = nullptr, leave_ = nullptr;
  nn::GroupNorm norm_ = nullptr;
  std::vector<Stages> down_, up_;
  std::vector<nn::Conv2d> shrink_, grow_;
  std::shared_ptr<Stage> middle1_, middle2_;
};

}  // namespace

TeacherPtr make_unet(const NetworkShape& shape, const UNetOptions& options) {
  const int64_t factor = int64_t{1} << (options.multipliers.size() - 1);
  for (size_t i = 1; i < shape.sample.size(); ++i) {
    if (shape.sample[i] % factor != 0) {
      throw bad_input(
          "a U-Net of {} levels halves its samples {} times, which {} does not allow; "
          "give fewer multipliers or another size",
          options.multipliers.size(), options.multipliers.size() - 1, shape.sample[i]);
    }
  }
  return std::make_shared<UNet>(shape, options);
}

}  // namespace bespoke
