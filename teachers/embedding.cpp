#include "teachers/embedding.h"

#include <cmath>

namespace bespoke {

namespace {

constexpr int64_t kFrequencies = 32;
// In radians over the whole of [0, 1]. Higher ones would let the network bend faster in t than any
// few-step solver can follow, and lose their phase in half precision.
constexpr double kHighestFrequency = 128;

// Rounded to half precision, in which the weights are stored: their phases must not change.
torch::Tensor embedding_frequencies() {
  return torch::exp(torch::linspace(0, std::log(kHighestFrequency), kFrequencies))
      .to(torch::kHalf)
      .to(torch::kFloat);
}

}  // namespace

ConditionEmbedding::ConditionEmbedding(int64_t width, int64_t classes) {
  frequencies_ = register_buffer("frequencies", embedding_frequencies());
  first_ = register_module("first", torch::nn::Linear(2 * kFrequencies, width));
  second_ = register_module("second", torch::nn::Linear(width, width));
  table_ = register_module("table", torch::nn::Embedding(classes, width));
  torch::nn::init::normal_(table_->weight, 0, 0.02);
}

torch::Tensor ConditionEmbedding::forward(const torch::Tensor& t, const torch::Tensor& y) {
  const torch::Tensor phase = t.unsqueeze(1) * frequencies_;
  const torch::Tensor waves = torch::cat({phase.sin(), phase.cos()}, 1).type_as(first_->weight);
  return second_(torch::silu(first_(waves))) + table_(y);
}

}  // namespace bespoke
