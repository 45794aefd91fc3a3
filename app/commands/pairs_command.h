#pragma once

#include <string>

#include "bespoke/jobs/pair_maker.h"

namespace bespoke {

// Makes what the folder lacks of a request's pairs, and says how many and what they cost.
void fill_and_report(const OpenModel& open, const PairRequest& request, int64_t batch,
                     const std::string& folder);

}  // namespace bespoke
