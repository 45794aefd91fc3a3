#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bespoke/recipe/pair_manifest.h"
#include "bespoke/recipe/pairs.h"

namespace bespoke::detail {

// One file of a set of pairs.
struct PairShard {
  Split split;
  int64_t number, begin, end;

  int64_t count() const { return end - begin; }
};

std::string file_name(const PairShard& shard);

// Those that hold the split's first `count` pairs.
std::vector<PairShard> shards_of(const PairManifest& manifest, Split split, int64_t count);

// Reads a shard and checks all of it, its bytes against the manifest's checksum where there is one.
Pairs read_shard(const std::filesystem::path& folder, const PairManifest& manifest,
                 const PairShard& shard);

// Writes the whole file or nothing, and notes its checksum.
void write_shard(const std::filesystem::path& folder, PairManifest& manifest,
                 const PairShard& shard, const Pairs& pairs);

// Notes the checksum of a shard that is there, where none is known.
void note_checksum(const std::filesystem::path& folder, PairManifest& manifest,
                   const PairShard& shard);

// Shards one after the other, the first `count` pairs of them.
Pairs join(const std::vector<Pairs>& parts, int64_t count);

// Where two shards disagree on what conditions there are, they cannot be put together.
void check_alike(const Conditions& first, const Conditions& other, const std::string& source);

}  // namespace bespoke::detail
