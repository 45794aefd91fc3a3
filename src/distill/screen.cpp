#include "bespoke/distill/screen.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/distill/direct.h"

namespace bespoke {

using namespace detail;

namespace {

double loss_or_infinity(const Samples& samples, const NsSolver& solver,
                        const std::vector<int64_t>& subset, Counts* counts) {
  try {
    if (!samples.is_linear()) return mean(samples.log_errors(solver, subset, counts));
    LinearModel last = samples.last_step(samples.run(solver, subset, counts));
    // Fitted under the floor that training has, a part of the geometric mean of |r|^2, and compared
    // without it: it is another one for every solver.
    const std::vector<double> no_change(last.samples.front().products.size(), 0);
    last.floor = DirectOptions().smoothing * last.size * std::exp(last.loss(no_change));
    const std::vector<double> change = best_change(last);
    last.floor = 0;
    return last.loss(change);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

size_t nearest_solver(const Samples& samples, const std::vector<NsSolver>& solvers,
                      int64_t most_samples, Counts* counts,
                      const std::function<void(double)>& on_progress) {
  const std::vector<int64_t> subset = first_samples(samples, most_samples);
  std::vector<double> losses;
  for (const auto& solver : solvers) {
    losses.push_back(loss_or_infinity(samples, solver, subset, counts));
    if (on_progress) {
      on_progress(static_cast<double>(losses.size()) / static_cast<double>(solvers.size()));
    }
  }
  return static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
}

}  // namespace bespoke
