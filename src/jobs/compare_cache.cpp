#include "compare_cache.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/sample/in_batches.h"

namespace bespoke {

namespace {

// Part of every key: a change in what is kept, or in how it is computed, makes older files foreign.
constexpr int kCacheFormat = 1;

constexpr int64_t kPart = 1024;  // samples of the reference in a file

struct CachedTensors {
  TensorCache::Tensors tensors;
  bool found = false;  // rather than computed
};

// What the cache has under the key, or what compute() makes, which is kept there. A cache that
// cannot be written costs a note, not the result.
CachedTensors cached(const TensorCache& cache, const nlohmann::json& key,
                     const Execution& execution,
                     const std::function<TensorCache::Tensors()>& compute) {
  if (auto found = cache.find(key)) return {*found, true};
  const TensorCache::Tensors tensors = compute();
  try {
    cache.keep(key, tensors);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::failed) throw;
    execution.note(fmt::format("nothing is cached: {}", error.what()));
  }
  return {tensors, false};
}

// Of the job and its model, what decides the reference's samples from given noise.
nlohmann::json reference_key(const PreparedComparison& comparison) {
  const OpenModel& open = comparison.open;
  const double tolerance = comparison.job.tolerance;
  return {{"format", kCacheFormat},
          {"what", "reference samples"},
          {"model", open.identity()},
          {"dtype", open.precision},
          {"device", open.device.is_cpu() ? "cpu" : "gpu"},
          {"guidance", describe(open.guidance)},
          {"tolerances", {tolerance, tolerance}}};
}

}  // namespace

CachedReference::CachedReference(const PreparedComparison& comparison, Execution execution)
    : cache_(comparison.cache),
      samples_(comparison.samples),
      tolerances_{comparison.job.tolerance, comparison.job.tolerance},
      execution_(std::move(execution)),
      key_(reference_key(comparison)) {}

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
  const int64_t begin = number * kPart, end = std::min(samples_.count(), begin + kPart);
  const torch::Tensor noise = samples_.noise(begin, end);
  const Conditions conditions = slice(samples_.conditions, begin, end);
  nlohmann::json key = key_;
  key["noise"] = tensor_sha256(noise);
  key["conditions"] = nlohmann::json::object();
  for (const auto& [name, value] : conditions) key["conditions"][name] = tensor_sha256(value);
  const CachedTensors entry = cached(cache_, key, execution_, [&] {
    const ReferenceResult result = computed(noise, conditions, begin);
    return TensorCache::Tensors{{"x", result.x}, {"evaluations", result.evaluations}};
  });
  was_there_ = was_there_ && entry.found;
  part_ = {entry.tensors.at("x"), entry.tensors.at("evaluations")};
  number_ = number;
}

ReferenceResult CachedReference::computed(const torch::Tensor& noise, const Conditions& conditions,
                                          int64_t first) const {
  Batching batching;
  batching.batch = execution_.batch;
  batching.first_sample = first;
  batching.on_progress = [&](double done) { execution_.report("reference", done); };
  ReferenceResult result =
      reference_in_batches(samples_.model, noise, conditions, tolerances_, batching);
  result.x = result.x.to(noise.scalar_type());
  return result;
}

FeatureStatistics cached_statistics(const TensorCache& cache, const nlohmann::json& extractor,
                                    const nlohmann::json& source, const Execution& execution,
                                    const std::function<FeatureStatistics()>& compute) {
  const nlohmann::json key = {{"format", kCacheFormat},
                              {"what", "statistics of features"},
                              {"extractor", extractor},
                              {"source", source}};
  const CachedTensors entry = cached(cache, key, execution, [&] {
    const FeatureStatistics statistics = compute();
    return TensorCache::Tensors{{"mean", statistics.mean},
                                {"covariance", statistics.covariance},
                                {"count", torch::tensor({statistics.count})}};
  });
  return {entry.tensors.at("mean"), entry.tensors.at("covariance"),
          entry.tensors.at("count").item<int64_t>()};
}

}  // namespace bespoke
