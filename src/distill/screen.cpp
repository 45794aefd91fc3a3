#include "bespoke/distill/screen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bespoke/core/error.h"
#include "bespoke/distill/levenberg_marquardt.h"

namespace bespoke {

namespace {

double geometric_mean_square(const LastStep& last) {
  double sum = 0;
  for (const auto& sample : last.samples) {
    sum += std::log(std::max(sample.squared_error, kLeastError * last.size));
  }
  return std::exp(sum / static_cast<double>(last.samples.size()));
}

double loss_or_infinity(const Objective& objective, const NsSolver& solver,
                        const std::vector<int64_t>& subset, Counts* counts) {
  try {
    if (!objective.is_linear()) return mean(objective.log_errors(solver, subset, counts));
    LastStep last = objective.last_step(solver, subset, counts);
    // The floor of the loss that training will lower.
    last.floor = LmOptions().smoothing * geometric_mean_square(last);
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
