#pragma once

#include <filesystem>

#include "bespoke/jobs/open_model.h"
#include "bespoke/recipe/pair_store.h"

namespace bespoke {

// Says how many pairs a folder has now and what they cost.
void print_pairs(const OpenModel& open, const PairPlan& plan, const PairReport& report,
                 const std::filesystem::path& folder);

}  // namespace bespoke
