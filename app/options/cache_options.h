#pragma once

#include <CLI/CLI.hpp>
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

}  // namespace bespoke
