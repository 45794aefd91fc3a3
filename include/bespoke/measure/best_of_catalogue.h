#pragma once

#include <functional>
#include <vector>

#include "bespoke/model/model.h"
#include "bespoke/recipe/pairs.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// What the best of the catalogue is chosen from: every entry that can spend `nfe` on every grid,
// the ranges of log-SNR that automatic starts lie on among them, in the coordinates of the schedule
// and in those of FM-OT. Solvers that compute the same are listed once.
std::vector<NamedSolver> catalogue_contenders(int nfe, const FieldDescription& field,
                                              double data_deviation);

// The contender with the largest mean PSNR on the pairs, whose noise should not be that of the
// figures it is reported with. All are measured on the first pair, the best sixty-four on the first
// four, the best twelve on all. About `batch` samples are
// computed at once, and the members of a team measure a part of the contenders each. `on_progress`
// is told the fraction done.
NamedSolver best_of_catalogue(const ModelPtr& model, int nfe, const FieldDescription& field,
                              const Pairs& pairs, int64_t batch,
                              const std::function<void(double)>& on_progress, Team& team = alone());

}  // namespace bespoke
