#include "bespoke/distill/fit_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/starts.h"
#include "bespoke/solver/grid.h"

namespace bespoke {

using namespace detail;

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
        most_calls_(options.most_calls),
        counts_(counts) {
    fit_.free_start_scale = fit_.free_start_scale && has_start_scale(family);
    fit_.guided = family.shape().guided;
  }

  // From here on fits are handicapped, as less likely to be the best of other samples than their
  // loss on these says: among many times some suit few samples by chance.
  void handicap(double decibels) {
    handicap_ = decibels * std::log(10) / 10 / std::sqrt(static_cast<double>(subset_.size()));
  }

  // Whether the fit on this grid is the best so far.
  bool improves(const std::string& grid) {
    if (!can_afford_another()) return false;
    try {
      tried_ = true;
      const NsSolver on_grid = representable(family_, make_grid(grid, family_.nfe(), schedule_));
      fit_.start_scale = on_grid.start_scale;
      FittedSolver fitted = fit_solver(samples_, subset_, on_grid.times, fit_, counts_);
      if (!std::isfinite(fitted.loss)) return false;
      const double loss = fitted.loss + handicap_;
      const bool better = fits_.empty() || loss < fits_.begin()->first;
      fits_.emplace(loss, Fit{"fit/" + grid, std::move(fitted)});
      return better;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::diverged) problem_ = error.what();
      // A range moved beyond what the schedule can tell apart is no grid.
      if (error.kind() != ErrorKind::diverged && error.kind() != ErrorKind::usage) throw;
      return false;
    }
  }

  // Times moved for fewer samples suit these alone: from one, unseen samples lose 1.5 dB by it.
  bool tells_times_apart() const {
    constexpr size_t kFewest = 4;
    return subset_.size() >= kFewest;
  }

  // So many at most, the best first.
  std::vector<FoundFit> best(size_t most) const {
    if (fits_.empty()) report_none();
    std::vector<FoundFit> fits;
    for (const auto& [handicapped, fit] : fits_) {
      if (fits.size() == most) break;
      const bool alone = subset_.size() == 1;
      const double loss = fit.fitted.loss;
      fits.push_back({{fit.name, fit.fitted.solver},
                      loss,
                      fit.fitted.log_errors,
                      alone ? loss : left_out_loss(fit.fitted, fit_.smoothing)});
    }
    return fits;
  }

 private:
  struct Fit {
    std::string name;
    FittedSolver fitted;
  };

  [[noreturn]] void report_none() const {
    if (tried_) throw Error(ErrorKind::diverged, problem_);
    throw usage_error("{} calls do not suffice for a fit, which takes {}; give more",
                      grouped(most_calls_), grouped(cost()));
  }

  int64_t cost() const { return static_cast<int64_t>(subset_.size()) * family_.shape().calls(); }
  bool can_afford_another() const {
    return most_calls_ == 0 || counts_->forwards + cost() <= most_calls_;
  }

  const Samples& samples_;
  const Family& family_;
  const Schedule& schedule_;
  FitOptions fit_;
  std::vector<int64_t> subset_;
  int64_t most_calls_;
  bool tried_ = false;
  Counts* counts_;
  double handicap_ = 0;
  std::multimap<double, Fit> fits_;  // by their loss, handicapped
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

// Each number in turn, so many rounds.
void move_numbers(Search& search, MovableGrid& grid, int rounds,
                  const std::function<void(double)>& on_progress) {
  for (int round = 0; round < rounds; ++round) {
    for (size_t number = 0; number < grid.at.size(); ++number) {
      double& step = grid.steps[number];
      if (!moves(search, grid, number, step) && !moves(search, grid, number, -step)) step /= 2;
    }
    if (on_progress) on_progress(static_cast<double>(round + 1) / rounds);
  }
}

// The best of the ranges, if it is the best so far.
std::optional<MovableGrid> best_range(Search& search, const std::vector<LogSnrRange>& ranges) {
  std::optional<MovableGrid> best;
  for (const LogSnrRange& range : ranges) {
    if (search.improves(to_string(range))) best = ranges_about(range);
  }
  return best;
}

// Decibels that other times must gain by on one sample, and fewer on more, than the likeliest: they
// lose as much on other samples where they do.
constexpr double kLikely = 0.75, kOthers = 1.5;

// The same of ranges of which the first is the likeliest.
std::optional<MovableGrid> best_likely(Search& search, const std::vector<LogSnrRange>& ranges) {
  std::optional<MovableGrid> best;
  for (const LogSnrRange& range : ranges) {
    if (search.improves(to_string(range))) best = ranges_about(range);
    search.handicap(kLikely);
  }
  return best;
}

// The best of what suits models that are unlike all others too.
std::optional<MovableGrid> best_automatic(Search& search, const std::vector<LogSnrRange>& all) {
  // Every second range: moving them reaches those between.
  std::vector<LogSnrRange> ranges;
  for (size_t k = 0; k < all.size(); k += 2) ranges.push_back(all[k]);
  std::optional<MovableGrid> best = best_range(search, ranges);
  if (search.improves("uniform-t")) best = even_times();
  return best;
}

}  // namespace

std::vector<FoundFit> search_fits(const Samples& samples, const Family& family,
                                  const Schedule& schedule, const FitSearchOptions& options,
                                  size_t most, Counts* counts,
                                  const std::function<void(double)>& on_progress) {
  Search search(samples, family, schedule, options, counts);
  const int rounds = search.tells_times_apart() ? options.rounds : 0;
  const auto move = [&](std::optional<MovableGrid> grid) {
    if (grid) move_numbers(search, *grid, rounds, on_progress);
  };
  const double deviation = samples.data_deviation();
  if (options.begins_with_likely_ranges) {
    std::optional<MovableGrid> likely =
        best_likely(search, likely_ranges(family.nfe(), schedule, deviation));
    if (likely && !search.tells_times_apart()) return search.best(most);
    search.handicap(kOthers);
    move(likely);
  }
  move(best_automatic(search, automatic_ranges(family.nfe(), schedule, deviation)));
  return search.best(most);
}

FoundFit search_fit(const Samples& samples, const Family& family, const Schedule& schedule,
                    const FitSearchOptions& options, Counts* counts,
                    const std::function<void(double)>& on_progress) {
  return search_fits(samples, family, schedule, options, 1, counts, on_progress).front();
}

}  // namespace bespoke
