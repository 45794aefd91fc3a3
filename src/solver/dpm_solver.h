#pragma once

#include <vector>

#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"
#include "exponential.h"

namespace bespoke {

// The solvers of DPM-Solver for Prediction::noise and of DPM-Solver++ for Prediction::data.

// Makes the singlestep solvers, 2S and 3S: one order (1, 2 or 3 evaluations) per step.
NsSolver dpm_singlestep(const Schedule& schedule, const std::vector<double>& grid, Prediction form,
                        const std::vector<int>& orders);

// The orders of the steps that spend exactly nfe evaluations with a method of order 2 or 3.
std::vector<int> dpm_singlestep_orders(int order, int nfe);

// Makes the multistep solvers, 2M and 3M. The order is what the history with finite lambda allows,
// and one on a step to sigma = 0.
NsSolver dpm_multistep(const Schedule& schedule, const std::vector<double>& grid, Prediction form,
                       const MultistepOptions& options);

}  // namespace bespoke
