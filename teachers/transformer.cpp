#include "teachers/transformer.h"

#include <cmath>

#include "bespoke/base/error.h"
#include "teachers/embedding.h"
#include "teachers/zeroed.h"

namespace bespoke {

namespace {

namespace nn = torch::nn;

nn::LayerNorm plain_norm(int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).elementwise_affine(false));
}

// x (1 + scale) + shift in one pass.
torch::Tensor modulate(const torch::Tensor& x, const torch::Tensor& shift,
                       const torch::Tensor& scale) {
  return torch::addcmul(shift, x, 1 + scale);
}

class Attention : public nn::Module {
 public:
  Attention(int64_t width, int64_t heads) : heads_(heads), width_(width) {
    inputs_ = register_module("inputs", nn::Linear(width, 3 * width));
    output_ = register_module("output", nn::Linear(width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const int64_t tokens = x.size(1), size = width_ / heads_;
    const auto parts =
        inputs_(x).reshape({-1, tokens, 3, heads_, size}).permute({2, 0, 3, 1, 4}).unbind(0);
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    const torch::Tensor weights =
        torch::softmax(torch::matmul(parts[0] * scale, parts[1].transpose(-1, -2)), -1);
    return output_(torch::matmul(weights, parts[2]).transpose(1, 2).reshape({-1, tokens, width_}));
  }

 private:
  int64_t heads_, width_;
  nn::Linear inputs_ = nullptr, output_ = nullptr;
};

class Block : public nn::Module {
 public:
  Block(int64_t width, int64_t heads, int64_t hidden) : width_(width) {
    norm_ = register_module("norm", plain_norm(width));
    attention_ = register_module("attention", std::make_shared<Attention>(width, heads));
    expand_ = register_module("expand", nn::Linear(width, hidden));
    contract_ = register_module("contract", nn::Linear(hidden, width));
    modulation_ = register_module("modulation", zeroed(nn::Linear(width, 6 * width)));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& condition) {
    const auto m = modulation_(condition).reshape({-1, 6, 1, width_}).unbind(1);
    const torch::Tensor mixed =
        torch::addcmul(x, m[2], attention_->forward(modulate(norm_(x), m[0], m[1])));
    const torch::Tensor hidden = torch::silu(expand_(modulate(norm_(mixed), m[3], m[4])));
    return torch::addcmul(mixed, m[5], contract_(hidden));
  }

 private:
  int64_t width_;
  nn::LayerNorm norm_ = nullptr;
  std::shared_ptr<Attention> attention_;
  nn::Linear expand_ = nullptr, contract_ = nullptr, modulation_ = nullptr;
};

// Between samples and patches. An image is [channels, rows, patch, columns, patch], a sound
// [channels, rows, patch].
class Patches {
 public:
  Patches(const NetworkShape& shape, int64_t patch) {
    split_ = {-1, shape.sample[0]};
    joined_ = {-1, shape.sample[0]};
    values_ = shape.sample[0];
    for (size_t i = 1; i < shape.sample.size(); ++i) {
      const int64_t length = shape.sample[i];
      if (length % patch != 0) {
        throw bad_input("patches of {} do not divide samples of {}; choose another patch or size",
                        patch, length);
      }
      split_.insert(split_.end(), {length / patch, patch});
      joined_.push_back(length);
      count_ *= length / patch;
      values_ *= patch;
    }
    apart_ = {-1};
    for (size_t i = 2; i < split_.size(); i += 2) apart_.push_back(split_[i]);
    apart_.push_back(shape.sample[0]);
    for (size_t i = 3; i < split_.size(); i += 2) apart_.push_back(split_[i]);
  }

  int64_t count() const { return count_; }
  int64_t values() const { return values_; }  // of one patch

  torch::Tensor take_apart(const torch::Tensor& x) const {
    const torch::Tensor split = x.reshape(split_);
    const bool image = split_.size() == 6;
    return (image ? split.permute({0, 2, 4, 1, 3, 5}) : split.permute({0, 2, 1, 3}))
        .reshape({-1, count_, values_});
  }

  torch::Tensor put_together(const torch::Tensor& patches) const {
    const torch::Tensor apart = patches.reshape(apart_);
    const bool image = split_.size() == 6;
    return (image ? apart.permute({0, 3, 1, 4, 2, 5}) : apart.permute({0, 2, 1, 3}))
        .reshape(joined_);
  }

 private:
  std::vector<int64_t> split_, apart_, joined_;
  int64_t count_ = 1, values_ = 1;
};

class Transformer : public TeacherNetwork {
 public:
  Transformer(const NetworkShape& shape, const TransformerOptions& options)
      : patches_(shape, options.patch),
        inputs_(with_context(shape), options.patch),
        width_(options.width),
        channels_(shape.sample[0]),
        fills_gaps_(shape.fills_gaps()) {
    const auto hidden = static_cast<int64_t>(options.mlp_ratio * static_cast<double>(width_));
    condition_ = register_module("condition", std::make_shared<ConditionEmbedding>(width_, shape));
    if (shape.has_captions()) {
      caption_ = register_module("caption", std::make_shared<CaptionEmbedding>(width_, shape));
    }
    enter_ = register_module("enter", nn::Linear(inputs_.values(), width_));
    positions_ =
        register_parameter("positions", 0.02 * torch::randn({1, patches_.count(), width_}));
    for (int64_t i = 0; i < options.depth; ++i) {
      blocks_.push_back(register_module("block" + std::to_string(i),
                                        std::make_shared<Block>(width_, options.heads, hidden)));
    }
    norm_ = register_module("norm", plain_norm(width_));
    modulation_ = register_module("modulation", zeroed(nn::Linear(width_, 2 * width_)));
    leave_ = register_module("leave", zeroed(nn::Linear(width_, patches_.values())));
    skip_ = register_module("skip", zeroed(nn::Linear(width_, (fills_gaps_ ? 3 : 1) * channels_)));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& t,
                        const torch::Tensor& y) override {
    const torch::Tensor condition = torch::silu(condition_->forward(t, y));
    torch::Tensor tokens = enter_(inputs_.take_apart(x)) + positions_;
    if (caption_) tokens = torch::cat({tokens, caption_->forward(y)}, 1);
    for (const auto& block : blocks_) tokens = block->forward(tokens, condition);
    if (caption_) tokens = tokens.slice(1, 0, patches_.count());
    const auto m = modulation_(condition).reshape({-1, 2, 1, width_}).unbind(1);
    const torch::Tensor out = patches_.put_together(leave_(modulate(norm_(tokens), m[0], m[1])));
    const torch::Tensor gains = skip_(condition);
    return fills_gaps_ ? add_known(out, x, gains)
                       : torch::addcmul(out, per_channel(gains, x.dim()), x);
  }

 private:
  static NetworkShape with_context(NetworkShape shape) {
    shape.sample[0] += shape.context;
    return shape;
  }

  torch::Tensor per_channel(const torch::Tensor& gains, int64_t dimensions) const {
    std::vector<int64_t> sizes(static_cast<size_t>(dimensions), 1);
    sizes[0] = -1;
    sizes[1] = channels_;
    return gains.reshape(sizes);
  }

  // Where the sample is known its velocity is a sum of it and of x, with weights of time alone.
  torch::Tensor add_known(const torch::Tensor& out, const torch::Tensor& input,
                          const torch::Tensor& gains) const {
    const torch::Tensor x = input.slice(1, 0, channels_);
    const torch::Tensor visible = input.slice(1, channels_, 2 * channels_);
    const torch::Tensor known = input.slice(1, 2 * channels_, 2 * channels_ + 1);
    const auto gain = [&](int64_t k) {
      return per_channel(gains.slice(1, k * channels_, (k + 1) * channels_), 3);
    };
    return out + (gain(0) + gain(1) * known) * x + gain(2) * visible;
  }

  Patches patches_, inputs_;
  int64_t width_, channels_;
  bool fills_gaps_;
  std::shared_ptr<ConditionEmbedding> condition_;
  std::shared_ptr<CaptionEmbedding> caption_;  // none where there are classes
  nn::Linear enter_ = nullptr, leave_ = nullptr, modulation_ = nullptr, skip_ = nullptr;
  torch::Tensor positions_;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::LayerNorm norm_ = nullptr;
};

}  // namespace

TeacherPtr make_transformer(const NetworkShape& shape, const TransformerOptions& options) {
  if (options.width % options.heads != 0) {
    throw usage_error("a width of {} is not a multiple of {} heads", options.width, options.heads);
  }
  return std::make_shared<Transformer>(shape, options);
}

}  // namespace bespoke
