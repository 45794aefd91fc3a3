#include "bespoke/io/pair_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bespoke/core/batches.h"
#include "bespoke/core/file.h"
#include "bespoke/core/folder_lock.h"
#include "bespoke/core/json_checks.h"
#include "bespoke/core/noise.h"
#include "bespoke/core/sha256.h"
#include "bespoke/io/safetensors.h"

namespace bespoke {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

constexpr char kFormat[] = "bespoke-pairs";
constexpr int kVersion = 1;
constexpr char kManifest[] = "manifest.json";
constexpr char kEvaluations[] = "evaluations";
constexpr char kConditionPrefix[] = "condition.";
constexpr char kTf32[] = "tf32";
constexpr char kContinue[] = "run the command that began it again to continue";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostPairs = int64_t{1} << 40;  // sums and file numbers stay far from overflow

// ---- The manifest -------------------------------------------------------------------------------

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
  return {{"format", kFormat},
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
}

std::string manifest_text(const PairManifest& manifest) {
  json document = describe_plan(manifest);
  if (manifest.evaluations) {
    document[kEvaluations] = {{"total", *manifest.evaluations},
                              {"mean", static_cast<double>(*manifest.evaluations) /
                                           static_cast<double>(manifest.count())}};
  }
  return document.dump(2) + "\n";
}

// Kept in every shard, so that shards of two stores are never mixed.
std::string fingerprint(const PairManifest& manifest) {
  return sha256(describe_plan(manifest).dump());
}

void check_header(const json& document, const std::string& source) {
  require(document.is_object() && document.contains("format") && document["format"] == kFormat,
          source, fmt::format("not a set of pairs: \"format\" must be \"{}\"", kFormat));
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
  for (const auto& size : value) shape.push_back(whole_number(size, where, 1, kMost));
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
  check_plan(plan);
  if (document.contains(kEvaluations)) {
    const json& evaluations = document[kEvaluations];
    check_keys(evaluations, {"total", "mean"}, {}, at(kEvaluations));
    manifest.evaluations = whole_number(evaluations["total"], at("evaluations.total"), 0, kMost);
  }
  return manifest;
}

// ---- What differs -------------------------------------------------------------------------------

// "tolerance.relative is 1e-05 there and 0.001 here": the first few values that are not the same,
// each by its own name; empty where all are.
std::string differences(const json& there, const json& here) {
  constexpr size_t kShown = 3;
  const json left = there.flatten(), right = here.flatten();
  std::vector<std::string> names, parts;
  for (const auto& item : left.items()) names.push_back(item.key());
  for (const auto& item : right.items()) {
    if (!left.contains(item.key())) names.push_back(item.key());
  }
  const auto shown = [](const json& flat, const std::string& name) {
    return flat.contains(name) ? flat[name].dump() : "absent";
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

void check_owner(const PairManifest& manifest, const PairOwner& owner, const std::string& source) {
  const std::string differs = differences(describe(manifest.plan.owner), describe(owner));
  require(differs.empty(), source,
          fmt::format("these pairs are of another model or guidance: {}; make pairs of your own "
                      "in another folder, or give the model and guidance they are of",
                      differs));
}

// ---- Shards -------------------------------------------------------------------------------------

struct Shard {
  Split split;
  int64_t number, begin, end;

  int64_t count() const { return end - begin; }
};

std::string file_name(const Shard& shard) {
  return fmt::format("{}-{:05}.safetensors", to_string(shard.split), shard.number);
}

// Those that hold the split's first `count` pairs.
std::vector<Shard> shards_of(const PairManifest& manifest, Split split, int64_t count) {
  const int64_t size = manifest.plan.shard_size, all = manifest.split(split).count;
  std::vector<Shard> shards;
  for (int64_t begin = 0; begin < count; begin += size) {
    shards.push_back({split, begin / size, begin, std::min(all, begin + size)});
  }
  return shards;
}

std::map<std::string, std::string> metadata_of(const PairManifest& manifest, const Shard& shard) {
  return {{"format", kFormat},
          {"split", to_string(shard.split)},
          {"first", std::to_string(shard.begin)},
          {"seed", std::to_string(manifest.split(shard.split).seed)},
          {"plan", fingerprint(manifest)}};
}

std::vector<int64_t> with_count(int64_t count, const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes = {count};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

const torch::Tensor& checked_tensor(const TensorFile& file, const std::string& name,
                                    const std::vector<int64_t>& shape, torch::ScalarType dtype,
                                    const std::string& source) {
  const auto found = file.tensors.find(name);
  require(found != file.tensors.end(), source, fmt::format("tensor '{}' is missing", name));
  require(
      found->second.sizes() == torch::IntArrayRef(shape) && found->second.scalar_type() == dtype,
      source,
      fmt::format("tensor '{}' must be {} of shape [{}], found {} of shape [{}]", name,
                  torch::toString(dtype), fmt::join(shape, ", "),
                  torch::toString(found->second.scalar_type()),
                  fmt::join(found->second.sizes(), ", ")));
  return found->second;
}

void check_finite(const torch::Tensor& values, const std::string& name, const Shard& shard,
                  const std::string& source) {
  const torch::Tensor good = torch::isfinite(values).flatten(1).all(1);
  if (good.all().item<bool>()) return;
  const int64_t row = good.logical_not().nonzero()[0][0].item<int64_t>();
  throw bad_input("{}: {} of {} pair {} is not finite; delete the file and {}", source, name,
                  to_string(shard.split), shard.begin + row, kContinue);
}

PairSet read_shard(const fs::path& folder, const PairManifest& manifest, const Shard& shard) {
  const fs::path path = folder / file_name(shard);
  const std::string source = path.string();
  const TensorFile file = read_safetensors(path);
  require(file.metadata == metadata_of(manifest, shard), source,
          fmt::format("is not a shard of this set of pairs; delete it and {}", kContinue));
  const auto shape = with_count(shard.count(), manifest.sample_shape);
  PairSet pairs;
  pairs.x0 = checked_tensor(file, "x0", shape, manifest.state_dtype(), source);
  pairs.x1 = checked_tensor(file, "x1", shape, manifest.state_dtype(), source);
  pairs.evaluations = checked_tensor(file, kEvaluations, {shard.count()}, torch::kLong, source);
  check_finite(pairs.x0, "x0", shard, source);
  check_finite(pairs.x1, "x1", shard, source);
  const std::string prefix = kConditionPrefix;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.rfind(prefix, 0) != 0) continue;
    require(tensor.dim() >= 1 && tensor.size(0) == shard.count(), source,
            fmt::format("tensor '{}' must have {} rows", name, shard.count()));
    pairs.conditions[name.substr(prefix.size())] = tensor;
  }
  return pairs;
}

// Where two shards disagree on what conditions there are, they cannot be put together.
void check_alike(const Conditions& first, const Conditions& other, const std::string& source) {
  const auto alike = [](const auto& left, const auto& right) {
    return left.first == right.first &&
           left.second.sizes().slice(1) == right.second.sizes().slice(1) &&
           left.second.scalar_type() == right.second.scalar_type();
  };
  require(
      first.size() == other.size() && std::equal(first.begin(), first.end(), other.begin(), alike),
      source, "its conditions are not those of the first shard");
}

PairSet join(const std::vector<PairSet>& parts, int64_t count) {
  const auto joined = [&](const auto& tensor_of) {
    std::vector<torch::Tensor> tensors;
    for (const auto& part : parts) tensors.push_back(tensor_of(part));
    return torch::cat(tensors).slice(0, 0, count).contiguous();
  };
  PairSet all;
  all.x0 = joined([](const PairSet& part) { return part.x0; });
  all.x1 = joined([](const PairSet& part) { return part.x1; });
  all.evaluations = joined([](const PairSet& part) { return part.evaluations; });
  for (const auto& condition : parts.front().conditions) {
    const std::string& name = condition.first;
    all.conditions[name] = joined([&](const PairSet& part) { return part.conditions.at(name); });
  }
  return all;
}

// ---- Making them --------------------------------------------------------------------------------

// A finished store is left untouched, so that it may lie where nothing can be written.
void write_manifest(const fs::path& folder, const PairManifest& manifest) {
  const fs::path path = folder / kManifest;
  const std::string text = manifest_text(manifest);
  if (is_file(path) && read_file(path) == text) return;
  remove_unfinished(path);
  write_file_atomically(path, text);
}

// Begins a store, or makes sure that the one in the folder is of this plan.
void begin_or_continue(const fs::path& folder, const PairManifest& manifest) {
  if (!is_file(folder / kManifest)) return write_manifest(folder, manifest);
  const PairManifest there = read_pair_manifest(folder);
  const std::string differs = differences(describe_plan(there), describe_plan(manifest));
  require(differs.empty(), folder.string(),
          fmt::format("holds other pairs: {}; choose another folder, or the options it was begun "
                      "with",
                      differs));
}

TensorFile make_shard(const PairManifest& manifest, const Shard& shard, const ModelPtr& model,
                      const PairConditions& conditions_of, const PairRun& run) {
  const auto seed = static_cast<uint64_t>(manifest.split(shard.split).seed);
  const torch::Tensor noise =
      normal_noise(seed, static_cast<uint64_t>(shard.begin), shard.count(), manifest.sample_shape);
  // Rounded before it is used: x1 belongs to the x0 that is stored.
  const torch::Tensor x0 = (model->schedule()->source_std() * noise).to(manifest.state_dtype());
  const Conditions conditions = conditions_of(shard.split, shard.begin, shard.end);
  std::vector<torch::Tensor> x1, evaluations;
  for_each_batch(shard.count(), run.batch, run.on_progress,
                 [&](int64_t begin, int64_t end, const auto& report) {
                   ReferenceOptions options;
                   options.tolerances = manifest.plan.tolerances;
                   options.first_sample = shard.begin + begin;
                   options.on_progress = report;
                   const auto result = reference(model, x0.slice(0, begin, end).to(run.device),
                                                 slice(conditions, begin, end), options);
                   x1.push_back(result.x.to(torch::kCPU, manifest.state_dtype()));
                   evaluations.push_back(result.evaluations);
                 });
  TensorFile file;
  file.metadata = metadata_of(manifest, shard);
  file.tensors = {{"x0", x0}, {"x1", torch::cat(x1)}, {kEvaluations, torch::cat(evaluations)}};
  for (const auto& [name, values] : conditions) file.tensors[kConditionPrefix + name] = values;
  return file;
}

// As make_shard; a sample that the reference gives up on is named with its split.
TensorFile make_named_shard(const PairManifest& manifest, const Shard& shard, const ModelPtr& model,
                            const PairConditions& conditions_of, const PairRun& run) {
  try {
    return make_shard(manifest, shard, model, conditions_of, run);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    throw Error(error.kind(), fmt::format("{} pairs: {}", to_string(shard.split), error.what()));
  }
}

int64_t total(const torch::Tensor& evaluations) { return evaluations.sum().item<int64_t>(); }

// Makes the missing shards and returns how many pairs they hold; `manifest` gets the evaluations
// spent on all.
int64_t complete(const fs::path& folder, PairManifest& manifest, const ModelPtr& model,
                 const PairConditions& conditions_of, const PairRun& run) {
  std::vector<Shard> missing;
  int64_t spent = 0, pending = 0;
  for (const Split split : {Split::train, Split::validation}) {
    for (const Shard& shard : shards_of(manifest, split, manifest.split(split).count)) {
      if (is_file(folder / file_name(shard))) {
        spent += total(read_shard(folder, manifest, shard).evaluations);
      } else {
        missing.push_back(shard);
        pending += shard.count();
      }
    }
  }
  int64_t made = 0;
  for (const Shard& shard : missing) {
    PairRun part = run;
    part.on_progress = [&](double done) {
      if (!run.on_progress) return;
      run.on_progress((static_cast<double>(made) + done * static_cast<double>(shard.count())) /
                      static_cast<double>(pending));
    };
    const TensorFile file = make_named_shard(manifest, shard, model, conditions_of, part);
    remove_unfinished(folder / file_name(shard));
    write_safetensors(folder / file_name(shard), file);
    spent += total(file.tensors.at(kEvaluations));
    made += shard.count();
  }
  manifest.evaluations = spent;
  return made;
}

}  // namespace

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

PairReport make_pairs(const fs::path& folder, const PairPlan& plan, const ModelPtr& model,
                      const PairConditions& conditions, const PairRun& run) {
  PairReport report;
  PairManifest& manifest = report.manifest;
  manifest.plan = plan;
  manifest.dtype = model->dtype();
  manifest.sample_shape = model->sample_shape();
  check_plan(plan);
  make_folders(folder);
  const FolderLock lock(folder);
  begin_or_continue(folder, manifest);
  report.made = complete(folder, manifest, model, conditions, run);
  write_manifest(folder, manifest);
  return report;
}

PairManifest read_pair_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifest;
  const std::string source = path.string();
  const json document =
      parse_json(read_file(path), source, "pairs are made by 'bespoke pairs -o FOLDER'");
  check_header(document, source);
  check_keys(document,
             {"format", "version", "model", "guidance", "tolerance", "dtype", "sample_shape",
              "conditions", "train", "validation", "shard_size"},
             {kEvaluations}, source);
  return read_checked(source, [&] { return parse_manifest(document, source); });
}

PairSet read_pairs(const fs::path& folder, Split split, const PairOwner& owner, int64_t count) {
  const PairManifest manifest = read_pair_manifest(folder);
  check_owner(manifest, owner, folder.string());
  const int64_t there = manifest.split(split).count;
  if (count == 0) count = there;
  require(count >= 1 && count <= there, folder.string(),
          fmt::format("has {} {} pairs, {} are asked for", there, to_string(split), count));
  std::vector<PairSet> parts;
  for (const Shard& shard : shards_of(manifest, split, count)) {
    const std::string source = (folder / file_name(shard)).string();
    require(is_file(source), source,
            fmt::format("is missing: these pairs are unfinished; {}", kContinue));
    parts.push_back(read_shard(folder, manifest, shard));
    check_alike(parts.front().conditions, parts.back().conditions, source);
  }
  return join(parts, count);
}

}  // namespace bespoke
