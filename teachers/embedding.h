#pragma once

#include <cstdint>

#include "teachers/network.h"

namespace bespoke {

// Time and class as one vector, [batch, width]: a two-layer perceptron on sines and cosines of t,
// plus a row of a table for the class.
class ConditionEmbedding : public torch::nn::Module {
 public:
  // classes includes the null class.
  ConditionEmbedding(int64_t width, int64_t classes);
  torch::Tensor forward(const torch::Tensor& t, const torch::Tensor& y);

 private:
  torch::Tensor frequencies_;
  torch::nn::Linear first_ = nullptr, second_ = nullptr;
  torch::nn::Embedding table_ = nullptr;
};

}  // namespace bespoke
