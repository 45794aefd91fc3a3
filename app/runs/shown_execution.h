#pragma once

#include <string>

#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/open_model.h"

namespace bespoke {

// Runs on an open model's device by all processes of this command; its progress is a bar for each
// thing that is done, and its notes go to stderr, each once.
Execution shown_execution(const OpenModel& open, int64_t batch);

}  // namespace bespoke
