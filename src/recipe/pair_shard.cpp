#include "pair_shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/sha256.h"
#include "bespoke/io/safetensors.h"
#include "pair_format.h"
#include "pair_steps.h"

namespace bespoke::detail {

namespace {

constexpr char kConditionPrefix[] = "condition.";

std::map<std::string, std::string> metadata_of(const PairManifest& manifest,
                                               const PairShard& shard) {
  return {{"format", kPairFormat},
          {"split", to_string(shard.split)},
          {"first", std::to_string(shard.begin)},
          {"seed", std::to_string(manifest.split(shard.split).seed)},
          {"plan", fingerprint(manifest)}};
}

void check_finite(const torch::Tensor& values, const std::string& name, const PairShard& shard,
                  const std::string& source) {
  const torch::Tensor good = torch::isfinite(values).flatten(1).all(1);
  if (good.all().item<bool>()) return;
  const int64_t row = good.logical_not().nonzero()[0][0].item<int64_t>();
  throw bad_input("{}: {} of {} pair {} is not finite; delete the file and {}", source, name,
                  to_string(shard.split), shard.begin + row, kContinuePairs);
}

void check_metadata(const TensorFile& file, const PairManifest& manifest, const PairShard& shard,
                    const std::string& source) {
  require(file.metadata == metadata_of(manifest, shard), source,
          fmt::format("is not a shard of this set of pairs; delete it and {}", kContinuePairs));
}

std::string trajectories_name(const PairShard& shard) {
  return fmt::format("{}-{:05}.safetensors", kPairTrajectories, shard.number);
}

TensorFile read_verified(const std::filesystem::path& folder, const PairManifest& manifest,
                         const std::string& name) {
  const std::filesystem::path path = folder / name;
  const std::string content = read_file(path);
  const auto checksum = manifest.checksums.find(name);
  // Folders of before there were checksums have none at all.
  require(checksum != manifest.checksums.end() || manifest.checksums.empty(), path.string(),
          fmt::format("has no checksum in {}, and other files have theirs, so nobody knows whose "
                      "it is; {}",
                      kPairManifest, kContinuePairs));
  require(manifest.checksums.empty() || sha256(content) == checksum->second, path.string(),
          fmt::format("its bytes are not those that were written ({} has another checksum), so it "
                      "was damaged or changed; delete it and {}",
                      kPairManifest, kContinuePairs));
  return parse_safetensors(content, path.string());
}

void write_noted(const std::filesystem::path& folder, PairManifest& manifest,
                 const std::string& name, const TensorFile& file) {
  const std::string content = safetensors_bytes(file);
  write_file_atomically(folder / name, content);
  manifest.checksums[name] = sha256(content);
}

}  // namespace

std::vector<int64_t> with_count(int64_t count, const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes = {count};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

const torch::Tensor& checked_tensor(const TensorFile& file, const std::string& name,
                                    const std::vector<int64_t>& shape, torch::ScalarType dtype,
                                    const std::string& source) {
  const auto entry = file.tensors.find(name);
  require(entry != file.tensors.end(), source, fmt::format("tensor '{}' is missing", name));
  require(
      entry->second.sizes() == torch::IntArrayRef(shape) && entry->second.scalar_type() == dtype,
      source,
      fmt::format("tensor '{}' must be {} of shape [{}], found {} of shape [{}]", name,
                  torch::toString(dtype), fmt::join(shape, ", "),
                  torch::toString(entry->second.scalar_type()),
                  fmt::join(entry->second.sizes(), ", ")));
  return entry->second;
}

std::string file_name(const PairShard& shard) {
  return fmt::format("{}-{:05}.safetensors", to_string(shard.split), shard.number);
}

std::vector<std::string> file_names(const PairManifest& manifest, const PairShard& shard) {
  std::vector<std::string> names = {file_name(shard)};
  if (trajectories_of(manifest, shard) > 0) names.push_back(trajectories_name(shard));
  return names;
}

std::vector<PairShard> shards_of(const PairManifest& manifest, Split split, int64_t count) {
  const int64_t size = manifest.plan.shard_size, all = manifest.split(split).count;
  std::vector<PairShard> shards;
  shards.reserve(static_cast<size_t>((std::max<int64_t>(count, 0) + size - 1) / size));
  for (int64_t begin = 0; begin < count; begin += size) {
    shards.push_back({split, begin / size, begin, std::min(all, begin + size)});
  }
  return shards;
}

Pairs read_shard(const std::filesystem::path& folder, const PairManifest& manifest,
                 const PairShard& shard) {
  const std::string source = (folder / file_name(shard)).string();
  const TensorFile file = read_verified(folder, manifest, file_name(shard));
  check_metadata(file, manifest, shard, source);
  const auto shape = with_count(shard.count(), manifest.sample_shape);
  Pairs pairs;
  pairs.x0 = checked_tensor(file, "x0", shape, manifest.state_dtype(), source);
  pairs.x1 = checked_tensor(file, "x1", shape, manifest.state_dtype(), source);
  pairs.evaluations = checked_tensor(file, kPairEvaluations, {shard.count()}, torch::kLong, source);
  check_finite(pairs.x0, "x0", shard, source);
  const std::string prefix = kConditionPrefix;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.rfind(prefix, 0) != 0) continue;
    require(tensor.dim() >= 1 && tensor.size(0) == shard.count(), source,
            fmt::format("tensor '{}' must have {} rows", name, shard.count()));
    pairs.conditions[name.substr(prefix.size())] = tensor;
  }
  return pairs;
}

void write_shard(const std::filesystem::path& folder, PairManifest& manifest,
                 const PairShard& shard, const Pairs& pairs) {
  TensorFile file;
  file.metadata = metadata_of(manifest, shard);
  file.tensors = {{"x0", pairs.x0}, {"x1", pairs.x1}, {kPairEvaluations, pairs.evaluations}};
  for (const auto& [name, values] : pairs.conditions) {
    file.tensors[kConditionPrefix + name] = values;
  }
  write_noted(folder, manifest, file_name(shard), file);
  if (trajectories_of(manifest, shard) == 0) return;
  TensorFile steps = joined_steps(pairs.trajectories->samples());
  steps.metadata = metadata_of(manifest, shard);
  write_noted(folder, manifest, trajectories_name(shard), steps);
}

std::vector<RecordedSteps> read_trajectories(const std::filesystem::path& folder,
                                             const PairManifest& manifest, const PairShard& shard) {
  const std::string name = trajectories_name(shard), source = (folder / name).string();
  const TensorFile file = read_verified(folder, manifest, name);
  check_metadata(file, manifest, shard, source);
  return separate_steps(file, trajectories_of(manifest, shard), manifest, source);
}

int64_t trajectories_of(const PairManifest& manifest, const PairShard& shard) {
  if (shard.split != Split::train) return 0;
  return std::clamp<int64_t>(manifest.plan.trajectories - shard.begin, 0, shard.count());
}

bool is_complete(const std::filesystem::path& folder, const PairManifest& manifest,
                 const PairShard& shard) {
  const auto names = file_names(manifest, shard);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const bool noted = manifest.checksums.empty() || manifest.checksums.count(name) > 0;
    return noted && is_file(folder / name);
  });
}

void note_checksums(const std::filesystem::path& folder, PairManifest& manifest,
                    const PairShard& shard) {
  for (const std::string& name : file_names(manifest, shard)) {
    if (manifest.checksums.count(name) > 0) continue;
    manifest.checksums[name] = sha256(read_file(folder / name));
  }
}

void check_alike(const Conditions& first, const Conditions& other, const std::string& source) {
  const auto is_same = [](const auto& left, const auto& right) {
    return left.first == right.first &&
           left.second.sizes().slice(1) == right.second.sizes().slice(1) &&
           left.second.scalar_type() == right.second.scalar_type();
  };
  require(first.size() == other.size() &&
              std::equal(first.begin(), first.end(), other.begin(), is_same),
          source, "its conditions are not those of the first shard");
}

Pairs join(const std::vector<Pairs>& parts, int64_t count) {
  const auto joined = [&](const auto& tensor_of) {
    std::vector<torch::Tensor> tensors;
    for (const auto& part : parts) tensors.push_back(tensor_of(part));
    return torch::cat(tensors).slice(0, 0, count).contiguous();
  };
  Pairs all;
  all.x0 = joined([](const Pairs& part) { return part.x0; });
  all.x1 = joined([](const Pairs& part) { return part.x1; });
  all.evaluations = joined([](const Pairs& part) { return part.evaluations; });
  for (const auto& condition : parts.front().conditions) {
    const std::string& name = condition.first;
    all.conditions[name] = joined([&](const Pairs& part) { return part.conditions.at(name); });
  }
  return all;
}

}  // namespace bespoke::detail
