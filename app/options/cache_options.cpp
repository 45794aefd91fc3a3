#include "options/cache_options.h"

#include <fmt/format.h>

#include <cstdlib>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"

namespace bespoke {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As the XDG base directories have it; empty if the environment names neither.
std::string user_cache() {
  const std::string base = environment("XDG_CACHE_HOME"), home = environment("HOME");
  // A relative one is to be ignored, says the specification.
  if (!base.empty() && base.front() == '/') return base + "/bespoke";
  return home.empty() ? "" : home + "/.cache/bespoke";
}

void note_uncached(const Error& error) {
  detail::say("bespoke: nothing is cached: {}", error.what());
}

}  // namespace

void CacheOptions::add_to(CLI::App& command) {
  command.add_option("--cache", folder,
                     "folder for the reference's samples and the statistics of features, used "
                     "again by later runs; default $XDG_CACHE_HOME/bespoke or ~/.cache/bespoke");
  command.add_flag("--no-cache", off, "compute everything, keep nothing");
}

TensorCache open_cache(const CacheOptions& options) {
  if (options.off && !options.folder.empty()) {
    throw usage_error("--cache and --no-cache contradict each other; give one of them");
  }
  if (options.off) return {};
  if (!options.folder.empty()) return TensorCache(options.folder);
  const std::string folder = user_cache();
  if (folder.empty()) return {};
  try {
    return TensorCache(folder);
  } catch (const Error& error) {
    note_uncached(error);
    return {};
  }
}

}  // namespace bespoke
