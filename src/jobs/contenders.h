#pragma once

#include "bespoke/jobs/compare_job.h"
#include "bespoke/jobs/execution.h"

namespace bespoke {

// Every solver of the job at every NFE it can spend; the only solver of a file at its own. The
// search for "best" takes long, so it comes when all the others are known to be there; rows keep
// the order of the list.
Contenders find_contenders(const CompareJob& job, const OpenModel& open,
                           const Execution& execution);

}  // namespace bespoke
