#include "bespoke/distill/fit_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/distill/starts.h"
#include "bespoke/solver/grid.h"

namespace bespoke {

namespace {

// A solver of the family with these times as the family has them, since a fit to others would not
// be one to where it is evaluated, and with the start scale they have where that is not free.
NsSolver representable(const Family& family, const std::vector<double>& times) {
  const SolverShape shape = family.shape();
  NsSolver solver = solver_of(shape, std::vector<double>(coefficient_count(shape), 0));
  solver.times = times;
  solver.start_scale = 1;
  return family.solver(family.parameters(solver));
}

// Whether a parameter moves the start scale and no time.
bool has_start_scale(const Family& family) {
  const Matrix jacobian = family.jacobian(std::vector<double>(family.parameter_count(), 0));
  for (size_t j = 0; j < jacobian.columns; ++j) {
    if (jacobian(start_scale_index(family.shape()), j) == 0) continue;
    bool moves_times = false;
    for (int i = 0; i <= family.nfe(); ++i) {
      moves_times = moves_times || jacobian(static_cast<size_t>(i), j) != 0;
    }
    if (!moves_times) return true;
  }
  return false;
}

class Search {
 public:
  Search(const Samples& samples, const Family& family, const Schedule& schedule,
         const FitSearchOptions& options, Counts* counts)
      : samples_(samples),
        family_(family),
        schedule_(schedule),
        fit_(options.fit),
        subset_(first_samples(samples, std::min(options.samples, samples.trajectories()))),
        counts_(counts) {
    fit_.free_start_scale = fit_.free_start_scale && has_start_scale(family);
    fit_.guided = family.shape().guided;
  }

  // Whether the fit on this grid is the best so far.
  bool improves(const std::string& grid) {
    try {
      const NsSolver on_grid = representable(family_, make_grid(grid, family_.nfe(), schedule_));
      fit_.start_scale = on_grid.start_scale;
      const FittedSolver fitted = fit_solver(samples_, subset_, on_grid.times, fit_, counts_);
      if (!(fitted.loss < least_)) return false;
      least_ = fitted.loss;
      best_ = {"fit/" + grid, fitted.solver};
      return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::diverged) problem_ = error.what();
      // A range moved beyond what the schedule can tell apart is no grid.
      if (error.kind() != ErrorKind::diverged && error.kind() != ErrorKind::usage) throw;
      return false;
    }
  }

  NamedSolver best() const {
    if (best_.name.empty()) throw Error(ErrorKind::diverged, problem_);
    return best_;
  }

 private:
  const Samples& samples_;
  const Family& family_;
  const Schedule& schedule_;
  FitOptions fit_;
  std::vector<int64_t> subset_;
  Counts* counts_;
  double least_ = std::numeric_limits<double>::infinity();
  NamedSolver best_;
  std::string problem_ = "no fit has a finite error";
};

// A grid by its numbers, and how far each of these is moved next.
struct MovableGrid {
  std::function<std::string(const std::vector<double>&)> name;
  std::vector<double> at, steps;
};

MovableGrid ranges_about(const LogSnrRange& range) {
  return {[](const std::vector<double>& at) {
            return to_string(LogSnrRange{at[0], at[1], at[2]});
          },
          {range.from, range.to, range.bend},
          {0.4, 0.6, 0.2}};
}

// Even in t at first: steps are drawn towards the noise or the data, and the first one moved.
MovableGrid even_times() {
  return {[](const std::vector<double>& at) {
            return fmt::format("shift:shift={:.3f},start={:.4f}", std::exp(at[0]), at[1]);
          },
          {0, 0},
          {0.4, 0.02}};
}

// Whether moving one number this far is better; it stays there then.
bool moves(Search& search, MovableGrid& grid, size_t number, double step) {
  std::vector<double> next = grid.at;
  next[number] += step;
  if (!search.improves(grid.name(next))) return false;
  grid.at = std::move(next);
  return true;
}

}  // namespace

NamedSolver search_fit(const Samples& samples, const Family& family, const Schedule& schedule,
                       const FitSearchOptions& options, Counts* counts,
                       const std::function<void(double)>& on_progress) {
  Search search(samples, family, schedule, options, counts);
  MovableGrid grid = options.moves_even_times ? even_times() : MovableGrid();
  search.improves("uniform-t");
  // Every second range: moving them reaches those between.
  const auto ranges = automatic_ranges(family.nfe(), schedule, samples.data_deviation());
  for (size_t k = 0; k < ranges.size(); k += 2) {
    if (search.improves(to_string(ranges[k]))) grid = ranges_about(ranges[k]);
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t number = 0; number < grid.at.size(); ++number) {
      double& step = grid.steps[number];
      if (!moves(search, grid, number, step) && !moves(search, grid, number, -step)) step /= 2;
    }
    if (on_progress) on_progress(static_cast<double>(round + 1) / options.rounds);
  }
  return search.best();
}

}  // namespace bespoke
