#pragma once

#include <cstddef>

#include "bespoke/base/table.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/measure/card_check.h"

namespace bespoke {

// The card and the `most` declarations that fit best, with their errors. `real`: of real samples.
Table score_table(const CardCheck& check, bool real, size_t most);

// Says what the check found, and throws where the card does not describe its network.
void report_verdict(const OpenModel& open, const CardCheck& check, bool real);

}  // namespace bespoke
