#pragma once

#include "bespoke/report/chart.h"
#include "bespoke/report/report.h"

namespace bespoke {

// The charts of a report, for its page and for files.

// PSNR of every solver against its evaluations.
LineChart quality_chart(const Report& report);

// What every distillation reached for how many calls of the model.
LineChart calls_chart(const Report& report);

}  // namespace bespoke
