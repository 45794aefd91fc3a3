#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/model/guidance_weight.h"
#include "bespoke/model/model.h"
#include "bespoke/solver/reference.h"

namespace bespoke {

// What solvers are distilled from: noise x0 and the model's own sample x(1) from it, kept as a
// folder of safetensors files and a manifest (docs/pairs.md), so that they are computed once.

enum class Split { train, validation };
std::string to_string(Split split);

// Pair i of a split starts from noise (seed, i).
struct SplitPlan {
  int64_t count = 0;
  int64_t seed = 0;
};

// Whose samples they are. `model` is whatever tells models apart, such as the hash of the weights.
struct PairOwner {
  nlohmann::json model = nlohmann::json::object();
  GuidanceWeight guidance;
};

// All that decides what the pairs are. The defaults are the paper's.
struct PairPlan {
  PairOwner owner;
  Tolerances tolerances;
  bool tf32 = false;                // float32 models multiplied in TF32
  std::string conditions = "none";  // how they were chosen, in words
  SplitPlan train = {520, 1}, validation = {1024, 2};
  int64_t shard_size = 64;  // pairs in a file
};

// Throws a usage error: counts, tolerances, and two splits that would share their noise.
void check_plan(const PairPlan& plan);

// What manifest.json says.
struct PairManifest {
  PairPlan plan;
  torch::ScalarType dtype = torch::kFloat;  // the model's precision
  std::vector<int64_t> sample_shape;
  std::optional<int64_t> evaluations;  // spent on all pairs; none until all are there

  const SplitPlan& split(Split which) const;
  int64_t count() const { return plan.train.count + plan.validation.count; }
  // The state's type, in which x0 and x1 are kept: float64 for float64 models, float32 for others.
  torch::ScalarType state_dtype() const;
};

// How to compute them, which decides none of their bits where the model's do not depend on it.
struct PairRun {
  int64_t batch = 64;  // samples computed at once, all of one shard
  torch::Device device = torch::kCPU;
  std::function<void(double)> on_progress;  // fraction of what this run has to make, 0 ... 1
};

// The conditions of pairs [begin, end) of a split; they may not depend on how pairs are grouped.
using PairConditions = std::function<Conditions(Split, int64_t begin, int64_t end)>;

struct PairReport {
  PairManifest manifest;
  int64_t made = 0;  // pairs this run added
};

// Makes the pairs that the folder lacks, shard by shard, with reference(). A run that was stopped
// at any point is continued by the same call, and the folder is then byte for byte that of an
// unbroken run. `model` is guided as the plan says. A folder with pairs of another plan is bad
// input that says what differs; so are shards that cannot be read, and one run at a time writes.
PairReport make_pairs(const std::filesystem::path& folder, const PairPlan& plan,
                      const ModelPtr& model, const PairConditions& conditions,
                      const PairRun& run = {});

// Pairs [0, count) of a split, on the CPU.
struct PairSet {
  torch::Tensor x0, x1;       // [count, ...], float32 or float64
  Conditions conditions;      // [count, ...] each
  torch::Tensor evaluations;  // [count] int64, what each x1 cost
};

// The manifest, with everything checked but whose it is.
PairManifest read_pair_manifest(const std::filesystem::path& folder);

// A split's first `count` pairs, all if count is 0. Bad input, in one sentence: pairs of another
// model or guidance, missing or foreign shards, wrong shapes, numbers that are not finite.
PairSet read_pairs(const std::filesystem::path& folder, Split split, const PairOwner& owner,
                   int64_t count = 0);

}  // namespace bespoke
