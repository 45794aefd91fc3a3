#include "bespoke/distill/screen.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "bespoke/core/error.h"

namespace bespoke {

namespace {

double loss_or_infinity(const Objective& objective, const NsSolver& solver,
                        const std::vector<int64_t>& subset, Counts* counts) {
  try {
    if (!objective.is_linear()) return mean(objective.log_errors(solver, subset, counts));
    const LastStep last = objective.last_step(solver, subset, counts);
    return last.loss(best_last_step(last));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

size_t nearest_solver(const Objective& objective, const std::vector<NsSolver>& solvers,
                      int64_t pairs, Counts* counts,
                      const std::function<void(double)>& on_progress) {
  std::vector<int64_t> subset(static_cast<size_t>(std::min(pairs, objective.count())));
  std::iota(subset.begin(), subset.end(), 0);
  std::vector<double> losses;
  for (const auto& solver : solvers) {
    losses.push_back(loss_or_infinity(objective, solver, subset, counts));
    if (on_progress) {
      on_progress(static_cast<double>(losses.size()) / static_cast<double>(solvers.size()));
    }
  }
  return static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
}

}  // namespace bespoke
