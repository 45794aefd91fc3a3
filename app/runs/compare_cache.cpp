#include "runs/compare_cache.h"

#include <torch/torch.h>

#include "options/cache_options.h"

namespace bespoke {

namespace {

// Part of every key: a change in what is kept, or in how it is computed, makes older files foreign.
constexpr int kCacheFormat = 1;

}  // namespace

nlohmann::json reference_key(const OpenModel& open, const ChosenSamples& chosen,
                             const Tolerances& tolerances) {
  nlohmann::json conditions = nlohmann::json::object();
  for (const auto& [name, value] : chosen.conditions) conditions[name] = tensor_sha256(value);
  return {{"format", kCacheFormat},
          {"what", "reference samples"},
          {"model", open.identity()},
          {"dtype", open.precision},
          {"device", open.device.is_cpu() ? "cpu" : "gpu"},
          {"guidance", describe(open.guidance)},
          {"conditions", conditions},
          {"noise", tensor_sha256(chosen.noise)},
          {"tolerances", {tolerances.rtol, tolerances.atol}}};
}

CachedReference cached_reference(const TensorCache& cache, const nlohmann::json& key,
                                 const std::function<ReferenceResult()>& compute) {
  const CachedTensors entry = cached(cache, key, [&] {
    const ReferenceResult result = compute();
    return TensorCache::Tensors{{"x", result.x}, {"evaluations", result.evaluations}};
  });
  return {{entry.tensors.at("x"), entry.tensors.at("evaluations")}, entry.found};
}

FeatureStatistics cached_statistics(const TensorCache& cache, const nlohmann::json& extractor,
                                    const nlohmann::json& source,
                                    const std::function<FeatureStatistics()>& compute) {
  const nlohmann::json key = {{"format", kCacheFormat},
                              {"what", "statistics of features"},
                              {"extractor", extractor},
                              {"source", source}};
  const CachedTensors entry = cached(cache, key, [&] {
    const FeatureStatistics statistics = compute();
    return TensorCache::Tensors{{"mean", statistics.mean},
                                {"covariance", statistics.covariance},
                                {"count", torch::tensor({statistics.count})}};
  });
  return {entry.tensors.at("mean"), entry.tensors.at("covariance"),
          entry.tensors.at("count").item<int64_t>()};
}

}  // namespace bespoke
