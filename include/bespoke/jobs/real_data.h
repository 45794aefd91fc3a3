#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/io/tensor_cache.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/feature_choice.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/measure/frechet.h"

namespace bespoke {

// Throws where --real names nothing that can be read; before a model is loaded.
void check_real(const std::string& path);

// What real samples must be to stand beside a model's.
struct RealShape {
  std::vector<int64_t> shape;  // without the count
  int64_t sample_rate = 0;     // of sounds, in Hz
};

// Real samples [count, ...]: images or sounds of a folder or a zip, made to fit the shape, or a
// tensor file of that shape. `option` is what named them, "--real PATH".
torch::Tensor read_real_samples(const std::string& option, const std::string& path,
                                const RealShape& wanted, const Execution& execution);

// Bytes 0 ... 255 mapped to the range; other numbers are taken to lie in it.
torch::Tensor in_value_range(const torch::Tensor& samples, const ValueRange& range);

// The statistics of real samples, of the shape that the model's have (decoded, where it has a
// decoder) and in its value range.
FeatureStatistics real_statistics(const std::string& path, const OpenModel& open,
                                  const OpenFeatures& features, const TensorCache& cache,
                                  const Execution& execution);

}  // namespace bespoke
