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

// One half of an autoencoder: [batch, ...] -> [batch, ...].
class AutoencoderHalf : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
};

// An encoder and a decoder. Latents are of any size and place until they are measured: see
// LatentSpace.
class Autoencoder : public torch::nn::Module {
 public:
  Autoencoder(std::vector<int64_t> latent_shape, std::shared_ptr<AutoencoderHalf> encoder,
              std::shared_ptr<AutoencoderHalf> decoder);

  std::vector<int64_t> latent_shape() const { return latent_shape_; }
  AutoencoderHalf& encoder() { return *encoder_; }
  AutoencoderHalf& decoder() { return *decoder_; }

 private:
  std::vector<int64_t> latent_shape_;
  std::shared_ptr<AutoencoderHalf> encoder_, decoder_;
};

// Convolutions down to a latent image and up again.
std::shared_ptr<Autoencoder> make_autoencoder(const NetworkShape& shape,
                                              const AutoencoderOptions& options);

}  // namespace bespoke
