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

// Whose samples the pairs are. `model` is what identifies it, such as the hash of the weights.
struct PairOwner {
  nlohmann::json model = nlohmann::json::object();
  GuidanceWeight guidance;
};

// All that decides what the pairs are, by default as in the paper.
struct PairPlan {
  PairOwner owner;
  Tolerances tolerances;
  bool tf32 = false;                // float32 models multiplied in TF32
  std::string conditions = "none";  // how they were chosen, in words
  SplitPlan train = {520, 1}, validation = {1024, 2};
  int64_t shard_size = 64;   // pairs in a file
  int64_t trajectories = 0;  // kept too, of the first so many training pairs
};

// Checks counts and tolerances, and that splits share no noise. Throws a usage error.
void check_plan(const PairPlan& plan);

// What manifest.json says.
struct PairManifest {
  PairPlan plan;
  torch::ScalarType dtype = torch::kFloat;  // the model's precision
  std::vector<int64_t> sample_shape;
  std::optional<int64_t> evaluations;  // spent on all pairs; none until all are there
  // The SHA-256 of each file by its name. Folders of early versions have none.
  std::map<std::string, std::string> checksums;

  const SplitPlan& split(Split which) const;
  int64_t count() const { return plan.train.count + plan.validation.count; }
  // The type in which x0 and x1 are kept.
  torch::ScalarType state_dtype() const;
};

// Reads the manifest of a folder of pairs and checks everything but whose it is.
PairManifest read_pair_manifest(const std::filesystem::path& folder);

// The same for the text of its manifest.json; `source` names it in messages.
PairManifest parse_pair_manifest(const std::string& text, const std::string& source);

}  // namespace bespoke
