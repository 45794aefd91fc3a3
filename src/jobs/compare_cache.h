#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "bespoke/io/tensor_cache.h"
#include "bespoke/jobs/compare_job.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/measure/frechet.h"
#include "bespoke/sample/reference.h"

namespace bespoke {

// What comparisons keep between runs: the reference's samples and statistics of features.

// The reference's samples, found in the cache or computed and kept there: a part of them at a time,
// each a file of its own, so that memory does not grow with their number.
class CachedReference {
 public:
  // Reads and hashes the weights.
  CachedReference(const PreparedComparison& comparison, Execution execution);

  // Of samples begin ... end - 1, which are asked for in order.
  ReferenceResult operator()(int64_t begin, int64_t end);

  // Whether all that was asked for was in the cache.
  bool was_there() const { return was_there_; }

 private:
  void find_part(int64_t number);
  ReferenceResult computed(const torch::Tensor& noise, const Conditions& conditions,
                           int64_t first) const;

  TensorCache cache_;
  ChosenSamples samples_;
  Tolerances tolerances_;
  Execution execution_;
  nlohmann::json key_;  // of all but the noise and its conditions
  bool was_there_ = true;
  int64_t number_ = -1;  // of the part at hand
  ReferenceResult part_;
};

// `extractor` and `source` say what made the features and of what.
FeatureStatistics cached_statistics(const TensorCache& cache, const nlohmann::json& extractor,
                                    const nlohmann::json& source, const Execution& execution,
                                    const std::function<FeatureStatistics()>& compute);

}  // namespace bespoke
