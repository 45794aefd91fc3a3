#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace bespoke {

// All weights of a network as one vector, and their gradients as another: an optimiser's step is
// then a few operations instead of a few for each of a hundred tensors, which on a GPU would cost
// more than the network itself.
class FlatWeights {
 public:
  // Moves the network to the device and its weights, which become views of `values`, to the
  // precision; buffers keep theirs.
  FlatWeights(torch::nn::Module& network, torch::Device device, torch::ScalarType dtype);

  torch::Tensor values;     // [count]
  torch::Tensor gradients;  // [count]; backward adds to it
};

// All weights of a network as one float32 vector, in the order of FlatWeights, and back.
torch::Tensor copy_weights(const torch::nn::Module& network);
void set_weights(torch::nn::Module& network, const torch::Tensor& values);

struct AdamWOptions {
  double learning_rate = 1e-3;
  double weight_decay = 0.01;
  double clip = 1;      // largest norm of the gradient
  double ema = 0.9995;  // of the average of the weights
};

// What training carries from step to step besides the network: float32 [count] each.
struct AdamWState {
  torch::Tensor weights, average, first_moment, second_moment;
  int64_t step = 0;
};

AdamWState begin_adamw(const torch::Tensor& weights);

// One step with the gradient as it is, the learning rate multiplied by `factor`. The weights'
// average forgets its beginning faster than `ema` alone would let it.
void adamw_step(AdamWState& state, const torch::Tensor& gradient, const AdamWOptions& options,
                double factor);

}  // namespace bespoke
