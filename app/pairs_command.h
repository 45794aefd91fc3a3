#pragma once

#include <cstdint>
#include <string>

#include "model_options.h"

namespace bespoke {

// What `bespoke pairs -o FOLDER` makes of this model with every other option at its default.
void make_default_pairs(const OpenModel& open, int64_t batch, const std::string& folder);

}  // namespace bespoke
