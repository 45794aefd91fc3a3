#include "teachers/classifier.h"

#include "teachers/convolution.h"

namespace bespoke {

Classifier::Classifier(const NetworkShape& shape) : is_sound_(shape.is_sound()) {
  struct Layer {
    int64_t channels, stride;
  };
  int64_t in = shape.sample[0];
  for (const Layer& layer : {Layer{48, 1}, {48, 1}, {96, 2}, {96, 1}, {192, 2}, {192, 1}}) {
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
  torch::Tensor h = is_sound_ ? x.unsqueeze(2) : x;
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
