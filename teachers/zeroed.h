#pragma once

#include <torch/torch.h>

namespace bespoke {

// A layer whose output is zero until it has learned something, so that a block begins as the
// identity.
template <class Layer>
Layer zeroed(Layer layer) {
  torch::nn::init::zeros_(layer->weight);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

}  // namespace bespoke
