#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/recipe/pair_manifest.h"
#include "bespoke/recipe/pairs.h"
#include "options/model_options.h"

namespace bespoke {

// What `bespoke pairs -o FOLDER` makes of this model with these conditions, this tolerance where
// one is given, and every other option at its default.
void make_default_pairs(const OpenModel& open, int64_t batch,
                        const std::vector<std::string>& conditions,
                        const std::optional<double>& tolerance, const std::string& folder);

// Pairs in memory, as many training pairs with their trajectories as the fit reads, and what they
// are; and those whose statistics are matched, which follow the training pairs.
struct MadePairs {
  PairPlan plan;
  Pairs train, validation, matching;
};
struct MadePairsOptions {
  int64_t batch = 64;
  std::vector<std::string> conditions;
  int64_t train = 0, validation = 0, matching = 0;
  double tolerance = 0;
  int64_t fixed_evaluations = 0;  // instead, each; then nothing beyond them is asked
};
MadePairs make_pairs_now(const OpenModel& open, const MadePairsOptions& options);

}  // namespace bespoke
