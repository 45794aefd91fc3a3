#pragma once

#include <cstdint>
#include <vector>

#include "teachers/network.h"

namespace bespoke {

// A small convolutional classifier whose last hidden layer serves as features for a Fréchet
// distance. Sounds of kLeastSpectral samples or more it sees as images: how loud each of 32 bands
// of pitch is over time.
class Classifier : public torch::nn::Module {
 public:
  explicit Classifier(const NetworkShape& shape);
  torch::Tensor features(const torch::Tensor& x);  // [batch, *sample] -> [batch, kFeatures]
  torch::Tensor forward(const torch::Tensor& x);   // -> [batch, classes], logits

  // Few, since a covariance needs more samples than there are features.
  static constexpr int64_t kFeatures = 64;
  static constexpr int64_t kLeastSpectral = 1024;

 private:
  torch::Tensor as_image(const torch::Tensor& x) const;

  bool is_sound_, by_spectrum_;
  torch::Tensor basis_, bands_;  // of the spectrum
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::GroupNorm> norms_;
  torch::nn::Linear hidden_ = nullptr, logits_ = nullptr;
};

}  // namespace bespoke
