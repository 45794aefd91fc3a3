#pragma once

#include "bespoke/solver/dormand_prince.h"

namespace bespoke {

// How exact reference samples must be, so that a solver of so many evaluations is not
// held back by their errors (research/experiments.md).
Tolerances usual_tolerances(int nfe);

}  // namespace bespoke
