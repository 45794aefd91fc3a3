#pragma once

#include <cstdint>

#include "bespoke/recipe/pairs.h"

namespace bespoke {

// How to draw the model's own samples where about so many evaluations of each can be paid for, and
// what it took to find out.
struct ReferenceChoice {
  int64_t fixed_evaluations = 0;  // 0: to the tolerances
  Tolerances tolerances;
  int64_t calls = 0;
  double share = 1;  // of the samples that were planned: what can be paid for

  // Of so many planned samples, one at least.
  int64_t affordable(int64_t planned) const;
};

// By so many evaluations, as a rule: few are best spent evenly. Where more than the usual number
// can be paid for, two samples are drawn by them and by twice as many; if these differ, as under
// strong guidance or of fields that are rough in t, by steps that follow the errors: to tolerances
// that take about as many, or, where a tolerance of 1e-3 takes more, to that for fewer samples.
// They are taken where twice as many even steps come nearer to them: they may overlook what is
// short.
ReferenceChoice choose_reference(const ModelPtr& model, const PairSource& source,
                                 int64_t evaluations, const PairRun& run);

}  // namespace bespoke
