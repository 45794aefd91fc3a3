#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/model/model.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/sample/reference.h"

namespace bespoke {

enum class Split { train, validation };
std::string to_string(Split split);

// The conditions of pairs [begin, end) of a split; they may not depend on how pairs are grouped.
using PairConditions = std::function<Conditions(Split, int64_t begin, int64_t end)>;

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
  int64_t shard_size = 64;   // pairs in a file
  int64_t trajectories = 0;  // kept too, of the first so many training pairs
};

// Throws a usage error: counts, tolerances, and two splits that would share their noise.
void check_plan(const PairPlan& plan);

// What manifest.json says.
struct PairManifest {
  PairPlan plan;
  torch::ScalarType dtype = torch::kFloat;  // the model's precision
  std::vector<int64_t> sample_shape;
  std::optional<int64_t> evaluations;  // spent on all pairs; none until all are there
  // SHA-256 of each file by its name. Folders made before there were any have none.
  std::map<std::string, std::string> checksums;

  const SplitPlan& split(Split which) const;
  int64_t count() const { return plan.train.count + plan.validation.count; }
  // In which x0 and x1 are kept.
  torch::ScalarType state_dtype() const;
};

// The manifest of a folder of pairs, with everything checked but whose it is.
PairManifest read_pair_manifest(const std::filesystem::path& folder);

// The same of the text of its manifest.json; `source` names it in messages.
PairManifest parse_pair_manifest(const std::string& text, const std::string& source);

}  // namespace bespoke
