#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "bespoke/model/model.h"
#include "bespoke/recipe/pair_manifest.h"
#include "bespoke/recipe/pairs.h"

namespace bespoke {

// Pairs kept as a folder of safetensors files and a manifest (docs/guide/pairs.md), so that they
// are computed once.

// What a run that makes pairs leaves.
struct PairReport {
  PairManifest manifest;  // of the folder as it is now
  int64_t made = 0;       // pairs this run added
  double seconds = 0;     // that it took
};

// Makes the pairs that the folder lacks, shard by shard, with reference(). A run that was stopped
// at any point is continued by the same call, and the folder is then byte for byte that of an
// unbroken run. `model` is guided as the plan says. A folder with pairs of another plan is bad
// input that says what differs; so are shards that cannot be read, and one run at a time writes.
// Pairs that the reference cannot finish are kept with an x1 of NaN; more than half of them are an
// Error (diverged).
PairReport make_pairs(const std::filesystem::path& folder, const PairPlan& plan,
                      const ModelPtr& model, const PairConditions& conditions,
                      const PairRun& run = {});

// Reads a split's first `count` pairs to the CPU, all if count is 0. Bad input, in one sentence:
// pairs of another model or guidance, missing or foreign shards, wrong shapes, noise that is not
// finite. The x1 of a pair that could not be finished is NaN: see leave_out_broken.
Pairs read_pairs(const std::filesystem::path& folder, Split split, const PairOwner& owner,
                 int64_t count = 0);

// Reads the trajectories that the folder has of its first `count` training pairs, of as many as it
// has if count is 0; null where it has none. Checked as pairs are. `model` is guided as the owner
// says.
std::shared_ptr<const DenseTrajectories> read_trajectories(const std::filesystem::path& folder,
                                                           const PairOwner& owner,
                                                           const Model& model, int64_t count = 0);

}  // namespace bespoke
