#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/io/dataset.h"
#include "teachers/network.h"

namespace bespoke {

struct Batch {
  torch::Tensor samples;  // float32 [batch, *sample] in [-1, 1]
  torch::Tensor labels;   // int64: classes [batch], or captions [batch, tokens]
};

// What the samples of a dataset are called in words, in their order.
struct Captions {
  torch::Tensor tokens;            // int64 [count, tokens], as Vocabulary numbers words
  std::vector<std::string> words;  // the vocabulary
};
// One a line. Bad input where there are not as many as samples.
Captions read_captions(const std::filesystem::path& path, int64_t samples);

struct AugmentOptions {
  bool flip = false;  // images left to right, half of the time
  int64_t shift = 0;  // images by up to so many pixels, what comes in is grey
};

// A dataset on the device it is trained on, drawn from at random.
class Examples {
 public:
  // Captions take the place of classes.
  Examples(const Dataset& dataset, torch::Device device,
           const std::optional<Captions>& captions = std::nullopt);

  // A network of these fills gaps in them.
  void leave_gaps() { gaps_ = true; }

  NetworkShape shape() const;
  int64_t count() const { return labels_.size(0); }
  // From LibTorch's generator of the device.
  Batch draw(int64_t batch, const AugmentOptions& augment) const;
  Batch slice(int64_t begin, int64_t end) const;

 private:
  torch::Tensor samples_, labels_;
  int64_t classes_ = 0, words_ = 0;
  bool gaps_ = false;
};

}  // namespace bespoke
