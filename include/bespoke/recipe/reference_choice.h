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
  double share = 1;  // the part of the planned samples that can be paid for

  // How many of so many planned samples can be paid for, one at least.
  int64_t affordable(int64_t planned) const;
};

// Chooses so many evaluations, as a rule: few are best spent evenly. Where more than the usual
// number can be paid for, two samples are drawn by them and by twice as many; if these differ, as
// under strong guidance or of fields that are rough in t, by steps that follow the errors: to
// tolerances that take about as many, or, where a tolerance of 1e-3 takes more, to that for fewer
// samples. They are taken where twice as many even steps come nearer to them: they may overlook
// what is short.
ReferenceChoice choose_reference(const ModelPtr& model, const PairSource& source,
                                 int64_t evaluations, const PairRun& run);

}  // namespace bespoke
