#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bespoke/recipe/pair_manifest.h"

// What the files of a set of pairs share.
namespace bespoke::detail {

constexpr char kPairFormat[] = "bespoke-pairs";
constexpr char kPairManifest[] = "manifest.json";
constexpr char kPairEvaluations[] = "evaluations";
constexpr char kPairTrajectories[] = "trajectories";
constexpr char kPairChecksums[] = "checksums";
constexpr char kContinuePairs[] = "run the command that began it again to continue";

std::string manifest_text(const PairManifest& manifest);

// Kept in every shard, so that shards of two stores are never mixed.
std::string fingerprint(const PairManifest& manifest);

// "tolerance.relative is 1e-05 there and 0.001 here": what differs between two plans or owners, the
// first few values by their names; empty where all are the same.
std::string plan_differences(const PairManifest& there, const PairManifest& here);
std::string owner_differences(const PairOwner& there, const PairOwner& here);

}  // namespace bespoke::detail
