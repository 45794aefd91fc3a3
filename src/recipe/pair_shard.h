#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bespoke/io/safetensors.h"
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

// How many of its pairs, the first ones, have their trajectories in a file beside it.
int64_t trajectories_of(const PairManifest& manifest, const PairShard& shard);

// All of its files, and whether they are there.
std::vector<std::string> file_names(const PairManifest& manifest, const PairShard& shard);
bool is_complete(const std::filesystem::path& folder, const PairManifest& manifest,
                 const PairShard& shard);

// Those that hold the split's first `count` pairs.
std::vector<PairShard> shards_of(const PairManifest& manifest, Split split, int64_t count);

// Reads a shard and checks all of it, its bytes against the manifest's checksum where there is one.
Pairs read_shard(const std::filesystem::path& folder, const PairManifest& manifest,
                 const PairShard& shard);

// The trajectories of its first pairs, checked likewise.
std::vector<RecordedSteps> read_trajectories(const std::filesystem::path& folder,
                                             const PairManifest& manifest, const PairShard& shard);

// Writes each file whole or not at all, and notes its checksum.
void write_shard(const std::filesystem::path& folder, PairManifest& manifest,
                 const PairShard& shard, const Pairs& pairs);

// Notes the checksums of a shard's files, where none are known.
void note_checksums(const std::filesystem::path& folder, PairManifest& manifest,
                    const PairShard& shard);

// Shards one after the other, the first `count` pairs of them.
Pairs join(const std::vector<Pairs>& parts, int64_t count);

// A tensor of a shard's file, of this shape and type.
const torch::Tensor& checked_tensor(const TensorFile& file, const std::string& name,
                                    const std::vector<int64_t>& shape, torch::ScalarType dtype,
                                    const std::string& source);

// [count, shape...]
std::vector<int64_t> with_count(int64_t count, const std::vector<int64_t>& shape);

// Where two shards disagree on what conditions there are, they cannot be put together.
void check_alike(const Conditions& first, const Conditions& other, const std::string& source);

}  // namespace bespoke::detail
