#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options/model_options.h"

namespace bespoke {

// What `bespoke pairs -o FOLDER` makes of this model with these conditions and every other
// option at its default.
void make_default_pairs(const OpenModel& open, int64_t batch,
                        const std::vector<std::string>& conditions, const std::string& folder);

}  // namespace bespoke
