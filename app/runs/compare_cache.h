#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "bespoke/io/tensor_cache.h"
#include "bespoke/measure/compare.h"
#include "options/samples_options.h"

namespace bespoke {

// What comparisons keep between runs: the reference's samples and statistics of features.

// All that decides the reference's samples: the model and how it runs, the noise, the conditions
// and the tolerance. Reads and hashes the weights.
nlohmann::json reference_key(const OpenModel& open, const ChosenSamples& chosen,
                             const Tolerances& tolerances);

struct CachedReference {
  ReferenceResult result;
  bool found = false;  // rather than computed
};
CachedReference cached_reference(const TensorCache& cache, const nlohmann::json& key,
                                 const std::function<ReferenceResult()>& compute);

// `extractor` and `source` say what made the features and of what.
FeatureStatistics cached_statistics(const TensorCache& cache, const nlohmann::json& extractor,
                                    const nlohmann::json& source,
                                    const std::function<FeatureStatistics()>& compute);

}  // namespace bespoke
