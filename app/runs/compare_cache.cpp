#include "runs/compare_cache.h"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "bespoke/base/progress.h"
#include "bespoke/sample/in_batches.h"
#include "options/cache_options.h"

namespace bespoke {

namespace {

// Part of every key: a change in what is kept, or in how it is computed, makes older files foreign.
constexpr int kCacheFormat = 1;

constexpr int64_t kPart = 1024;  // samples of the reference in a file

}  // namespace

CachedReference::CachedReference(const TensorCache& cache, const OpenModel& open,
                                 const ChosenSamples& chosen, const Tolerances& tolerances,
                                 int64_t batch)
    : cache_(cache),
      chosen_(chosen),
      tolerances_(tolerances),
      batch_(batch),
      key_({{"format", kCacheFormat},
            {"what", "reference samples"},
            {"model", open.identity()},
            {"dtype", open.precision},
            {"device", open.device.is_cpu() ? "cpu" : "gpu"},
            {"guidance", describe(open.guidance)},
            {"tolerances", {tolerances.rtol, tolerances.atol}}}) {}

ReferenceResult CachedReference::operator()(int64_t begin, int64_t end) {
  std::vector<torch::Tensor> samples, evaluations;
  while (begin < end) {
    find_part(begin / kPart);
    const int64_t first = begin % kPart, last = std::min(kPart, first + end - begin);
    samples.push_back(part_.x.slice(0, first, last));
    evaluations.push_back(part_.evaluations.slice(0, first, last));
    begin += last - first;
  }
  return {torch::cat(samples), torch::cat(evaluations)};
}

void CachedReference::find_part(int64_t number) {
  if (number == number_) return;
  const int64_t begin = number * kPart, end = std::min(chosen_.count(), begin + kPart);
  const torch::Tensor noise = chosen_.noise(begin, end);
  const Conditions conditions = slice(chosen_.conditions, begin, end);
  nlohmann::json key = key_;
  key["noise"] = tensor_sha256(noise);
  key["conditions"] = nlohmann::json::object();
  for (const auto& [name, value] : conditions) key["conditions"][name] = tensor_sha256(value);
  const CachedTensors entry = cached(cache_, key, [&] {
    const ReferenceResult result = computed(noise, conditions, begin);
    return TensorCache::Tensors{{"x", result.x}, {"evaluations", result.evaluations}};
  });
  was_there_ = was_there_ && entry.found;
  part_ = {entry.tensors.at("x"), entry.tensors.at("evaluations")};
  number_ = number;
}

ReferenceResult CachedReference::computed(const torch::Tensor& noise, const Conditions& conditions,
                                          int64_t first) const {
  Progress progress("reference");
  Batching batching;
  batching.batch = batch_;
  batching.first_sample = first;
  batching.on_progress = [&](double done) { progress.update(done); };
  ReferenceResult result =
      reference_in_batches(chosen_.model, noise, conditions, tolerances_, batching);
  result.x = result.x.to(noise.scalar_type());
  return result;
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
