#include "bespoke/recipe/pair_manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/sha256.h"
#include "pair_format.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr char kTf32[] = "tf32";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostNumbers = int64_t{1} << 40;  // of a sample
constexpr int64_t kMostPairs = int64_t{1} << 40;    // sums and file numbers stay far from overflow

const std::vector<std::pair<std::string, torch::ScalarType>>& dtype_names() {
  static const std::vector<std::pair<std::string, torch::ScalarType>> list = {
      {"float32", torch::kFloat},
      {"float64", torch::kDouble},
      {"bfloat16", torch::kBFloat16},
      {"float16", torch::kHalf}};
  return list;
}

std::string name_of(torch::ScalarType dtype) {
  for (const auto& [name, candidate] : dtype_names()) {
    if (candidate == dtype) return name;
  }
  throw std::logic_error("no model has this precision");
}

torch::ScalarType parse_dtype(const json& value, const std::string& where) {
  const std::string text = text_value(value, where);
  for (const auto& [name, dtype] : dtype_names()) {
    if (name == text) return dtype;
  }
  throw bad_input("{}: unknown precision '{}'", where, text);
}

json describe(const SplitPlan& split) { return {{"count", split.count}, {"seed", split.seed}}; }

// All but what becomes known only at the end.
json describe_plan(const PairManifest& manifest) {
  const PairPlan& plan = manifest.plan;
  json description = {
      {"format", kPairFormat},
      {"version", kVersion},
      {"model", plan.owner.model},
      {"guidance", describe(plan.owner.guidance)},
      {"tolerance", {{"relative", plan.tolerances.rtol}, {"absolute", plan.tolerances.atol}}},
      {"dtype", plan.tf32 ? kTf32 : name_of(manifest.dtype)},
      {"sample_shape", manifest.sample_shape},
      {"conditions", plan.conditions},
      {"train", describe(plan.train)},
      {"validation", describe(plan.validation)},
      {"shard_size", plan.shard_size}};
  // Absent where there are none, as in folders made before there could be any.
  if (plan.trajectories > 0) description[kPairTrajectories] = plan.trajectories;
  return description;
}

void check_header(const json& document, const std::string& source) {
  require(document.is_object() && document.contains("format") && document["format"] == kPairFormat,
          source, fmt::format("not a set of pairs: \"format\" must be \"{}\"", kPairFormat));
  require(document.contains("version"), source, "key \"version\" is missing");
  const double version = number(document["version"], source + ": version");
  require(version <= kVersion, source,
          fmt::format("written by a newer bespoke (version {}, this one reads up to {}); update "
                      "bespoke",
                      version, kVersion));
  require(version == kVersion, source, fmt::format("unknown version {}", version));
}

SplitPlan parse_split(const json& value, const std::string& where) {
  check_keys(value, {"count", "seed"}, {}, where);
  return {whole_number(value["count"], where + ".count", 0, kMostPairs),
          whole_number(value["seed"], where + ".seed", 0, kMost)};
}

std::vector<int64_t> parse_shape(const json& value, const std::string& where) {
  require(value.is_array(), where, "must be a list of sizes");
  std::vector<int64_t> shape;
  int64_t numbers = 1;
  for (const auto& size : value) {
    shape.push_back(whole_number(size, where, 1, kMostNumbers / numbers));
    numbers *= shape.back();
  }
  return shape;
}

PairManifest parse_manifest(const json& document, const std::string& source) {
  const auto at = [&](const char* key) { return source + ": " + key; };
  PairManifest manifest;
  PairPlan& plan = manifest.plan;
  plan.owner.model = document["model"];
  plan.owner.guidance = guidance_from_json(document["guidance"], at("guidance"));
  const json& tolerance = document["tolerance"];
  check_keys(tolerance, {"relative", "absolute"}, {}, at("tolerance"));
  plan.tolerances = {number(tolerance["relative"], at("tolerance.relative")),
                     number(tolerance["absolute"], at("tolerance.absolute"))};
  plan.tf32 = document["dtype"] == kTf32;
  if (!plan.tf32) manifest.dtype = parse_dtype(document["dtype"], at("dtype"));
  manifest.sample_shape = parse_shape(document["sample_shape"], at("sample_shape"));
  plan.conditions = text_value(document["conditions"], at("conditions"));
  plan.train = parse_split(document["train"], at("train"));
  plan.validation = parse_split(document["validation"], at("validation"));
  plan.shard_size = whole_number(document["shard_size"], at("shard_size"), 1, kMostPairs);
  if (document.contains(kPairTrajectories)) {
    plan.trajectories =
        whole_number(document[kPairTrajectories], at(kPairTrajectories), 1, kMostPairs);
  }
  check_plan(plan);
  if (document.contains(kPairEvaluations)) {
    const json& evaluations = document[kPairEvaluations];
    check_keys(evaluations, {"total", "mean"}, {}, at(kPairEvaluations));
    manifest.evaluations = whole_number(evaluations["total"], at("evaluations.total"), 0, kMost);
  }
  if (document.contains(kPairChecksums)) {
    const json& checksums = document[kPairChecksums];
    require(checksums.is_object(), at(kPairChecksums), "must be an object of checksums by file");
    for (const auto& [name, value] : checksums.items()) {
      manifest.checksums[name] = text_value(value, at(kPairChecksums));
    }
  }
  return manifest;
}

std::string differences(const json& there, const json& here) {
  constexpr size_t kShown = 3;
  const json left = there.flatten(), right = here.flatten();
  std::vector<std::string> names, parts;
  for (const auto& item : left.items()) names.push_back(item.key());
  for (const auto& item : right.items()) {
    if (!left.contains(item.key())) names.push_back(item.key());
  }
  const auto shown = [](const json& flat, const std::string& name) {
    return flat.contains(name) ? json_text(flat[name]) : "absent";
  };
  for (const auto& name : names) {
    const std::string was = shown(left, name), is = shown(right, name);
    if (was == is || parts.size() == kShown) continue;
    std::string plain = name.substr(1);
    std::replace(plain.begin(), plain.end(), '/', '.');
    parts.push_back(fmt::format("{} is {} there and {} here", plain, was, is));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

json describe(const PairOwner& owner) {
  return {{"model", owner.model}, {"guidance", describe(owner.guidance)}};
}

}  // namespace

namespace detail {

std::string manifest_text(const PairManifest& manifest) {
  json document = describe_plan(manifest);
  if (manifest.evaluations) {
    document[kPairEvaluations] = {{"total", *manifest.evaluations},
                                  {"mean", static_cast<double>(*manifest.evaluations) /
                                               static_cast<double>(manifest.count())}};
  }
  if (!manifest.checksums.empty()) document[kPairChecksums] = manifest.checksums;
  return json_text(document, 2) + "\n";
}

std::string fingerprint(const PairManifest& manifest) {
  return sha256(json_text(describe_plan(manifest)));
}

std::string plan_differences(const PairManifest& there, const PairManifest& here) {
  return differences(describe_plan(there), describe_plan(here));
}

std::string owner_differences(const PairOwner& there, const PairOwner& here) {
  return differences(describe(there), describe(here));
}

}  // namespace detail

std::string to_string(Split split) { return split == Split::train ? "train" : "validation"; }

void check_plan(const PairPlan& plan) {
  const auto [rtol, atol] = plan.tolerances;
  if (!(std::isfinite(rtol) && rtol > 0 && std::isfinite(atol) && atol > 0)) {
    throw usage_error("the tolerance must be positive, found {:g}", std::min(rtol, atol));
  }
  if (plan.train.count < 1 || plan.train.count > kMostPairs) {
    throw usage_error("{} training pairs cannot be made; at least 1 is needed", plan.train.count);
  }
  if (plan.validation.count < 0 || plan.validation.count > kMostPairs) {
    throw usage_error("{} validation pairs cannot be made", plan.validation.count);
  }
  if (plan.train.seed < 0 || plan.validation.seed < 0) {
    throw usage_error("seeds must not be negative");
  }
  if (plan.train.seed == plan.validation.seed) {
    throw usage_error(
        "training and validation pairs of the same seed, {}, would share their noise; give them "
        "different seeds",
        plan.train.seed);
  }
  if (plan.trajectories < 0 || plan.trajectories > plan.train.count) {
    throw usage_error("trajectories of {} training pairs cannot be kept; there are {} pairs",
                      plan.trajectories, plan.train.count);
  }
  if (plan.shard_size < 1) {
    throw usage_error("a shard needs at least 1 pair, found {}", plan.shard_size);
  }
}

const SplitPlan& PairManifest::split(Split which) const {
  return which == Split::train ? plan.train : plan.validation;
}

torch::ScalarType PairManifest::state_dtype() const {
  return dtype == torch::kDouble ? torch::kDouble : torch::kFloat;
}

PairManifest read_pair_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kPairManifest;
  return parse_pair_manifest(read_text_file(path), path.string());
}

PairManifest parse_pair_manifest(const std::string& text, const std::string& source) {
  const json document = parse_json(text, source, "pairs are made by 'bespoke pairs -o FOLDER'");
  check_header(document, source);
  check_keys(document,
             {"format", "version", "model", "guidance", "tolerance", "dtype", "sample_shape",
              "conditions", "train", "validation", "shard_size"},
             {kPairTrajectories, kPairEvaluations, kPairChecksums}, source);
  return read_checked(source, [&] { return parse_manifest(document, source); });
}

}  // namespace bespoke
