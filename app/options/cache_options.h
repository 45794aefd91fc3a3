#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "bespoke/io/tensor_cache.h"

namespace bespoke {

// --cache and --no-cache: where tensors that take long to compute are kept for the next run.
struct CacheOptions {
  std::string folder;  // empty: the user's cache
  bool off = false;

  void add_to(CLI::App& command);
};

// A folder that was asked for must be usable; without the user's own one works uncached.
TensorCache open_cache(const CacheOptions& options);

struct CachedTensors {
  TensorCache::Tensors tensors;
  bool found = false;  // rather than computed
};

// What the cache has under the key, or what compute() makes, which is kept there. A cache that
// cannot be written costs a note on stderr, not the result.
CachedTensors cached(const TensorCache& cache, const nlohmann::json& key,
                     const std::function<TensorCache::Tensors()>& compute);

}  // namespace bespoke
