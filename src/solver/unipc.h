#pragma once

#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"
#include "exponential.h"

namespace bespoke {

// UniPC's B(h): bh1 is h, bh2 is expm1(h), with h = -(lambda' - lambda) in the data form.
enum class UniPcVariant { bh1, bh2 };

// Makes multistep UniPC on data predictions: a predictor, one evaluation, and a corrector that uses
// it. The model is not evaluated again at the corrected point, so each step costs one evaluation.
NsSolver unipc(const Schedule& schedule, const std::vector<double>& grid, UniPcVariant variant,
               const MultistepOptions& options);

}  // namespace bespoke
