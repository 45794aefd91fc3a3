#pragma once

#include <cstdint>

#include "teachers/network.h"

namespace bespoke {

// Time and condition as one vector, [batch, width]: a two-layer perceptron on sines and cosines of
// t, plus a row of a table for the class or the mean of the rows of a caption's words.
class ConditionEmbedding : public torch::nn::Module {
 public:
  ConditionEmbedding(int64_t width, const NetworkShape& shape);
  torch::Tensor forward(const torch::Tensor& t, const torch::Tensor& y);

 private:
  bool has_captions_;
  torch::Tensor frequencies_;
  torch::nn::Linear first_ = nullptr, second_ = nullptr;
  torch::nn::Embedding table_ = nullptr;
};

// The words of a caption in their order, [batch, tokens, width].
class CaptionEmbedding : public torch::nn::Module {
 public:
  CaptionEmbedding(int64_t width, const NetworkShape& shape);
  torch::Tensor forward(const torch::Tensor& y);

 private:
  torch::nn::Embedding table_ = nullptr;
  torch::Tensor positions_;
};

}  // namespace bespoke
