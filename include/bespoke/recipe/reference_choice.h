#pragma once

#include <cstdint>

#include "bespoke/recipe/pairs.h"

namespace bespoke {

// How to draw reference samples where about so many evaluations of each can be paid for, and what
// it took to find out.
struct ReferenceChoice {
  int64_t fixed_evaluations = 0;  // 0: to the tolerances
  Tolerances tolerances;
  int64_t calls = 0;
};

// Chooses so many evaluations, as a rule: few are best spent evenly. Where more than the usual
// number can be paid for, two samples are drawn by them and by twice as many; if these differ, as
// under strong guidance or of fields that are rough in t, by steps that follow the errors, to
// tolerances that take about as many.
ReferenceChoice choose_reference(const ModelPtr& model, const PairSource& source,
                                 int64_t evaluations, const PairRun& run);

}  // namespace bespoke
