#include "bespoke/recipe/pair_store.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "bespoke/base/file.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/base/json_checks.h"
#include "pair_format.h"
#include "pair_shard.h"

namespace bespoke {

using namespace detail;

namespace {

// A finished store is left untouched, so that it may lie where nothing can be written.
void write_manifest(const std::filesystem::path& folder, const PairManifest& manifest) {
  const std::filesystem::path path = folder / kPairManifest;
  const std::string text = manifest_text(manifest);
  if (is_file(path) && read_file(path) == text) return;
  write_file_atomically(path, text);
}

// Begins a store, or makes sure that the one in the folder is of this plan and takes over the
// checksums of what is there.
void begin_or_continue(const std::filesystem::path& folder, PairManifest& manifest) {
  if (!is_file(folder / kPairManifest)) return write_manifest(folder, manifest);
  const PairManifest there = read_pair_manifest(folder);
  const std::string differs = plan_differences(there, manifest);
  require(differs.empty(), folder.string(),
          fmt::format("holds other pairs: {}; choose another folder, or the options it was begun "
                      "with",
                      differs));
  manifest.checksums = there.checksums;
}

Pairs make_shard(const PairManifest& manifest, const PairShard& shard, const ModelPtr& model,
                 const PairConditions& conditions_of, const PairRun& run) {
  PairSource source;
  source.seed = manifest.split(shard.split).seed;
  source.first = shard.begin;
  source.count = shard.count();
  source.conditions = conditions_of(shard.split, shard.begin, shard.end);
  source.tolerances = manifest.plan.tolerances;
  source.trajectories = trajectories_of(manifest, shard);
  return make_pairs(model, source, run);
}

int64_t total(const torch::Tensor& evaluations) { return evaluations.sum().item<int64_t>(); }

int64_t broken_in(const Pairs& pairs) {
  return pairs.count() - torch::isfinite(pairs.x1).flatten(1).all(1).sum().item<int64_t>();
}

// Pairs that cannot be finished are kept as such, unless they are more than half of a split.
class GivenUp {
 public:
  explicit GivenUp(const PairManifest& manifest) : manifest_(manifest) {}

  void add(const PairShard& shard, const Pairs& pairs) {
    int64_t& broken = broken_[shard.split];
    broken += broken_in(pairs);
    const int64_t count = manifest_.split(shard.split).count;
    if (2 * broken <= count) return;
    throw Error(ErrorKind::diverged, fmt::format("{} of {} {} pairs cannot be finished: {}", broken,
                                                 count, to_string(shard.split), why_));
  }
  void remember(const std::string& why) { why_ = why; }

 private:
  const PairManifest& manifest_;
  std::map<Split, int64_t> broken_;
  std::string why_ = "their samples are not finite";
};

// Makes the missing shards and returns how many pairs they hold; `manifest` gets the evaluations
// spent on all.
int64_t complete(const std::filesystem::path& folder, PairManifest& manifest, const ModelPtr& model,
                 const PairConditions& conditions_of, const PairRun& run) {
  std::vector<PairShard> present, missing;
  int64_t spent = 0, pending = 0;
  GivenUp given_up(manifest);
  for (const Split split : {Split::train, Split::validation}) {
    for (const PairShard& shard : shards_of(manifest, split, manifest.split(split).count)) {
      if (is_complete(folder, manifest, shard)) {
        const Pairs pairs = read_shard(folder, manifest, shard);
        spent += total(pairs.evaluations);
        given_up.add(shard, pairs);
        if (trajectories_of(manifest, shard) > 0) read_trajectories(folder, manifest, shard);
        present.push_back(shard);
      } else {
        missing.push_back(shard);
        pending += shard.count();
      }
    }
  }
  // A folder that had no checksums gets all of them: with some, the other files would look foreign.
  for (const PairShard& shard : present) note_checksums(folder, manifest, shard);
  int64_t made = 0;
  for (const PairShard& shard : missing) {
    PairRun part = run;
    part.on_progress = [&](double done) {
      if (!run.on_progress) return;
      run.on_progress((static_cast<double>(made) + done * static_cast<double>(shard.count())) /
                      static_cast<double>(pending));
    };
    part.on_given_up = [&](int64_t pair, const std::string& why) {
      given_up.remember(why);
      if (run.on_given_up) run.on_given_up(pair, to_string(shard.split) + " pairs: " + why);
    };
    const Pairs pairs = make_shard(manifest, shard, model, conditions_of, part);
    given_up.add(shard, pairs);
    exchange_work(*run.team, [&] {
      if (run.team->rank() == 0) {
        write_shard(folder, manifest, shard, pairs);
        write_manifest(folder, manifest);
      }
      return "";
    });
    spent += total(pairs.evaluations);
    made += shard.count();
  }
  manifest.evaluations = spent;
  return made;
}

void check_owner(const PairManifest& manifest, const PairOwner& owner, const std::string& source) {
  const std::string differs = owner_differences(manifest.plan.owner, owner);
  require(differs.empty(), source,
          fmt::format("these pairs are of another model or guidance: {}; make pairs of your own "
                      "in another folder, or give the model and guidance they are of",
                      differs));
}

void require_complete(const std::filesystem::path& folder, const PairManifest& manifest,
                      const PairShard& shard) {
  for (const std::string& name : file_names(manifest, shard)) {
    require(is_file(folder / name), (folder / name).string(),
            fmt::format("is missing: these pairs are unfinished; {}", kContinuePairs));
  }
}

}  // namespace

PairReport make_pairs(const std::filesystem::path& folder, const PairPlan& plan,
                      const ModelPtr& model, const PairConditions& conditions, const PairRun& run) {
  PairReport report;
  PairManifest& manifest = report.manifest;
  manifest.plan = plan;
  manifest.dtype = model->dtype();
  manifest.sample_shape = model->sample_shape();
  check_plan(plan);
  // The first member of a team writes, and the others read what it has written before they go on.
  std::optional<FolderLock> lock;
  const bool writes = run.team->rank() == 0;
  exchange_work(*run.team, [&] {
    if (writes) {
      make_folders(folder);
      lock.emplace(folder);
      begin_or_continue(folder, manifest);
    }
    return "";
  });
  if (!writes) begin_or_continue(folder, manifest);
  report.made = complete(folder, manifest, model, conditions, run);
  exchange_work(*run.team, [&] {
    if (writes) write_manifest(folder, manifest);
    return "";
  });
  return report;
}

Pairs read_pairs(const std::filesystem::path& folder, Split split, const PairOwner& owner,
                 int64_t count) {
  const PairManifest manifest = read_pair_manifest(folder);
  check_owner(manifest, owner, folder.string());
  const int64_t there = manifest.split(split).count;
  if (count == 0) count = there;
  require(count >= 1 && count <= there, folder.string(),
          fmt::format("has {} {} pairs, {} are asked for", there, to_string(split), count));
  std::vector<Pairs> parts;
  for (const PairShard& shard : shards_of(manifest, split, count)) {
    const std::string source = (folder / file_name(shard)).string();
    require_complete(folder, manifest, shard);
    parts.push_back(read_shard(folder, manifest, shard));
    check_alike(parts.front().conditions, parts.back().conditions, source);
  }
  return join(parts, count);
}

std::shared_ptr<const DenseTrajectories> read_trajectories(const std::filesystem::path& folder,
                                                           const PairOwner& owner,
                                                           const Model& model, int64_t count) {
  const PairManifest manifest = read_pair_manifest(folder);
  check_owner(manifest, owner, folder.string());
  const int64_t there = manifest.plan.trajectories;
  const int64_t wanted = count == 0 ? there : std::min(count, there);
  if (wanted == 0) return nullptr;
  std::vector<RecordedSteps> samples;
  for (const PairShard& shard : shards_of(manifest, Split::train, wanted)) {
    require_complete(folder, manifest, shard);
    auto some = read_trajectories(folder, manifest, shard);
    std::move(some.begin(), some.end(), std::back_inserter(samples));
  }
  samples.resize(static_cast<size_t>(wanted));
  return std::make_shared<DenseTrajectories>(std::move(samples), trajectory_span(model));
}

}  // namespace bespoke
