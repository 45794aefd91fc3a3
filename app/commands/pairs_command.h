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
MadePairs make_pairs_now(const OpenModel& open, int64_t batch,
                         const std::vector<std::string>& conditions, double tolerance,
                         int64_t samples, int64_t matching);

}  // namespace bespoke
