#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/measure/frechet.h"
#include "bespoke/model/network.h"

namespace bespoke {

// Where an extractor computes, and what it is given.
struct FeatureOptions {
  torch::Device device = torch::kCPU;  // samples are moved there
  double least = -1;                   // the lower end of the samples' value range
  double most = 1;                     // its upper end
  // What the extractor expects that range to be mapped to, linearly and clipped at its ends as
  // written images are; none: samples as they are.
  std::optional<std::pair<double, double>> range;
  int64_t size = 0;  // height and width that images are resized to, 0: as they are
};

// What makes samples comparable as sets: a TorchScript module x [batch, ...] -> [batch, d], or
// [batch, d, 1, 1], in float32. An Inception network makes the Fréchet distance the FID.
class FeatureExtractor {
 public:
  // Loads the module. A usage error where the size is negative or a range does not increase.
  FeatureExtractor(const std::filesystem::path& file, const FeatureOptions& options);

  // [batch, d] of samples [batch, ...]. Bad input: what came back is not that, in one sentence.
  // Diverged: it holds numbers that are not finite.
  torch::Tensor operator()(const torch::Tensor& samples) const;

  // d, for samples of this shape (without the batch); found by asking for those of a grey one.
  int64_t dimension(const std::vector<int64_t>& sample_shape) const;

 private:
  torch::Tensor prepare(const torch::Tensor& samples) const;
  // Of what is prepared; finite or not.
  torch::Tensor unchecked(const torch::Tensor& input) const;

  std::string file_;
  FeatureOptions options_;
  NetworkPtr network_;
};

// Any such function; a FeatureExtractor, or one that decodes first.
using FeatureFunction = std::function<torch::Tensor(const torch::Tensor& samples)>;

// Of samples that are sound: numbers that are not finite are then the extractor's fault, bad input.
torch::Tensor features_of_sound(const FeatureFunction& features, const torch::Tensor& samples);

// The statistics of sound samples [count, ...], `batch` at a time.
FeatureStatistics feature_statistics(const FeatureFunction& features, const torch::Tensor& samples,
                                     int64_t batch,
                                     const std::function<void(double)>& on_progress = {});

}  // namespace bespoke
