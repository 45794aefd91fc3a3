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

// A row for each value of the condition, the one for none among them.
torch::nn::Embedding condition_table(const NetworkShape& shape, int64_t width) {
  const int64_t values = (shape.has_captions() ? shape.words : shape.classes) + 1;
  torch::nn::Embedding table(values, width);
  torch::nn::init::normal_(table->weight, 0, 0.02);
  return table;
}

}  // namespace

ConditionEmbedding::ConditionEmbedding(int64_t width, const NetworkShape& shape)
    : has_captions_(shape.has_captions()) {
  frequencies_ = register_buffer("frequencies", embedding_frequencies());
  first_ = register_module("first", torch::nn::Linear(2 * kFrequencies, width));
  second_ = register_module("second", torch::nn::Linear(width, width));
  table_ = register_module("table", condition_table(shape, width));
}

torch::Tensor ConditionEmbedding::forward(const torch::Tensor& t, const torch::Tensor& y) {
  const torch::Tensor phase = t.unsqueeze(1) * frequencies_;
  const torch::Tensor waves = torch::cat({phase.sin(), phase.cos()}, 1).type_as(first_->weight);
  const torch::Tensor rows = table_(y);
  return second_(torch::silu(first_(waves))) + (has_captions_ ? rows.mean(1) : rows);
}

CaptionEmbedding::CaptionEmbedding(int64_t width, const NetworkShape& shape) {
  table_ = register_module("table", condition_table(shape, width));
  positions_ = register_parameter("positions", 0.02 * torch::randn({1, shape.tokens, width}));
}

torch::Tensor CaptionEmbedding::forward(const torch::Tensor& y) { return table_(y) + positions_; }

}  // namespace bespoke
