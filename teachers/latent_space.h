#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bespoke/io/dataset.h"
#include "bespoke/model/card.h"
#include "teachers/autoencoder.h"
#include "teachers/examples.h"

namespace bespoke {

// What an autoencoder or audio codec was trained for: encoder.pt, decoder.pt and autoencoder.json
// in a folder. A latent is (encoder(x) - shift) scale, with mean 0 and deviation 1 over the
// training data.
struct LatentSpace {
  EncoderCard encoder;
  std::vector<int64_t> shape;  // of a latent
  DecoderCard decoder;
  int64_t sample_rate = 0;  // of sounds, in Hz; 0 for images
};

// What is said of sounds besides.
struct SoundFacts {
  int64_t sample_rate = 0;  // 0: they are images
  int64_t margin = 0;       // as in EncoderCard
};

// Measures the latents of examples, and writes the folder's files.
void write_latent_space(Autoencoder& network, const NetworkShape& shape, const Examples& examples,
                        const SoundFacts& sound, const std::filesystem::path& folder);
LatentSpace read_latent_space(const std::filesystem::path& folder);

// float32 [count, *latent], on the CPU.
torch::Tensor encode_samples(const LatentSpace& space, const Examples& examples,
                             torch::Device device);

}  // namespace bespoke
