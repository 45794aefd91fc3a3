#include "teachers/classifier.h"

#include <algorithm>

#include "teachers/convolution.h"

namespace bespoke {

namespace {

constexpr int64_t kFine = 32;  // pixels, of images that are looked at pixel by pixel

// From -1 to 1 along an axis of x, in a channel of its own.
torch::Tensor places_along(int64_t axis, const torch::Tensor& x) {
  std::vector<int64_t> sizes(4, 1);
  sizes[static_cast<size_t>(axis)] = x.size(axis);
  // Added to zeros instead of expanded, for a recording would keep the size of its own batch.
  return torch::zeros_like(x.slice(1, 0, 1)) +
         torch::linspace(-1, 1, x.size(axis), x.options()).reshape(sizes);
}

// A sound is an image of height one.
torch::Tensor with_places(const torch::Tensor& x) {
  if (x.size(2) == 1) return torch::cat({x, places_along(3, x)}, 1);
  return torch::cat({x, places_along(2, x), places_along(3, x)}, 1);
}

}  // namespace

Classifier::Classifier(const NetworkShape& shape) : is_sound_(shape.is_sound()) {
  struct Layer {
    int64_t channels, stride;
  };
  // Its own place is put beside every pixel: a mean over all of them forgets where things are.
  int64_t in = shape.sample[0] + (is_sound_ ? 1 : 2);
  // Large images are looked at more coarsely, for a quarter of the work.
  const int64_t first = !is_sound_ && std::min(shape.sample[1], shape.sample[2]) > kFine ? 2 : 1;
  for (const Layer& layer : {Layer{48, first}, {48, 1}, {96, 2}, {96, 1}, {192, 2}, {192, 1}}) {
    const std::string name = std::to_string(convolutions_.size());
    convolutions_.push_back(register_module(
        "convolution" + name, convolution({!is_sound_}, in, layer.channels, layer.stride)));
    norms_.push_back(register_module("norm" + name, group_norm(layer.channels)));
    in = layer.channels;
  }
  hidden_ = register_module("hidden", torch::nn::Linear(in, kFeatures));
  logits_ = register_module("logits", torch::nn::Linear(kFeatures, shape.classes));
}

torch::Tensor Classifier::features(const torch::Tensor& x) {
  torch::Tensor h = with_places(is_sound_ ? x.unsqueeze(2) : x);
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const torch::Tensor next = torch::silu(norms_[i](convolutions_[i](h)));
    h = next.sizes() == h.sizes() ? h + next : next;
  }
  return hidden_(h.mean({2, 3}));
}

torch::Tensor Classifier::forward(const torch::Tensor& x) {
  return logits_(torch::silu(features(x)));
}

}  // namespace bespoke
