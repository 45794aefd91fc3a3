#pragma once

#include <cstdint>
#include <string>

#include "bespoke/io/tensor_cache.h"
#include "options/feature_options.h"
#include "runs/compare_cache.h"

namespace bespoke {

// Throws where --real names nothing that can be read; before a model is loaded.
void check_real(const std::string& path);

// The statistics of real samples: images or sounds of a folder or a zip, made to fit the model, or
// a tensor [count, ...] of the shape its samples have (decoded, where it has a decoder). Bytes 0
// ... 255 are mapped to the model's value range, other numbers are taken to lie in it.
FeatureStatistics real_statistics(const std::string& path, const OpenModel& open,
                                  const OpenFeatures& features, const TensorCache& cache,
                                  int64_t batch);

}  // namespace bespoke
