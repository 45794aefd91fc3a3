#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "bespoke/model/mixture.h"
#include "bespoke/tensor/noise.h"

namespace bespoke::testing {

// max |a - b| / max |b|.
inline double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

// One time for every sample of a batch.
inline torch::Tensor times(int64_t count, double t) {
  return torch::full({count}, t, torch::kDouble);
}

// A small mixture on which curvature, classes and several scales all matter.
inline Mixture small_mixture(int64_t dimension = 6, int64_t components = 4, int64_t classes = 0) {
  RandomMixtureOptions options;
  options.dimension = dimension;
  options.components = components;
  options.classes = classes;
  options.seed = 7;
  options.min_deviation = 0.2;
  options.max_deviation = 0.5;
  return random_mixture(options);
}

// x_0 for `count` samples of a model, scaled to its schedule.
inline torch::Tensor starting_noise(const Model& model, int64_t count, uint64_t seed = 1) {
  return bespoke::starting_noise(model, seed, 0, count);
}

}  // namespace bespoke::testing
