#pragma once

#include <functional>
#include <vector>

#include "bespoke/base/team.h"
#include "bespoke/run/samples.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The solvers that the best of the catalogue is chosen from: every entry that can spend `nfe` on
// every grid, the ranges of log-SNR that automatic starts lie on among them, in the coordinates of
// the schedule and in those of FM-OT. Solvers that compute the same are listed once. `wanted`
// leaves some out; null: none.
std::vector<NamedSolver> catalogue_contenders(
    int nfe, const FieldDescription& field, double data_deviation,
    const std::function<bool(const SolverName&)>& wanted = nullptr);

// The contender with the least mean log error on the samples, whose noise should not be that of the
// figures it is reported with. All are measured on the first sample, the best sixty-four on the
// first four, the best twelve on all. The samples are those of a lone process that joins runs, so
// that contenders run side by side; each member of `team` measures a part of the contenders.
// `on_progress` is told the fraction done.
NamedSolver best_of_catalogue(const Samples& samples, int nfe, const FieldDescription& field,
                              const std::function<void(double)>& on_progress, Team& team = alone());

}  // namespace bespoke
