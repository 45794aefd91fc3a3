#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "teachers/network.h"

namespace bespoke {

struct AutoencoderOptions {
  int64_t channels = 48;  // at full resolution; twice as many at each level below
  int64_t latents = 4;    // channels of a latent
  int64_t levels = 2;     // each halves height and width
};

// Convolutions down to a latent image and up again. Latents are of any size and place until they
// are measured: see LatentSpace.
class Autoencoder : public torch::nn::Module {
 public:
  Autoencoder(const NetworkShape& shape, const AutoencoderOptions& options);

  std::vector<int64_t> latent_shape() const { return latent_shape_; }
  torch::Tensor encode(const torch::Tensor& x);  // [batch, *sample] -> [batch, *latent]
  torch::Tensor decode(const torch::Tensor& z);

 private:
  class Block;
  std::vector<int64_t> latent_shape_;
  torch::nn::Conv2d enter_ = nullptr, code_ = nullptr, uncode_ = nullptr, leave_ = nullptr;
  std::vector<torch::nn::Conv2d> down_, up_;
  std::vector<std::shared_ptr<Block>> down_blocks_, up_blocks_;
  torch::nn::GroupNorm norm_ = nullptr;
};

}  // namespace bespoke
