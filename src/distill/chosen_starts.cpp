#include "chosen_starts.h"

#include <algorithm>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/screen.h"
#include "bespoke/distill/starts.h"

namespace bespoke::detail {

namespace {

class StartChoice {
 public:
  StartChoice(const Samples& training, const Samples& validation, const Family& family,
              const DistillOptions& options, size_t finalists, Counts* counts, Counts* measured)
      : training_(training),
        validation_(validation),
        family_(family),
        options_(options),
        finalists_(finalists),
        counts_(counts),
        measured_(measured) {}

  std::vector<ChosenStart> choose() const {
    if (!options_.starts.empty()) return as_chosen(options_.starts);
    const bool published = options_.method == Method::adam || !family_.is_bns();
    if (published) return as_chosen(plain());
    if (training_.trajectories() > 0) return {fitted()};
    if (options_.method == Method::fit) {
      throw bad_input("the fit needs the true trajectories of its samples, which these lack");
    }
    return as_chosen({nearest()});
  }

 private:
  static std::vector<ChosenStart> as_chosen(const std::vector<NamedSolver>& solvers) {
    std::vector<ChosenStart> chosen;
    for (const NamedSolver& solver : solvers) chosen.push_back({solver, {}});
    return chosen;
  }

  const Schedule& schedule() const { return *options_.field.schedule; }

  NamedSolver resolved(const std::string& name) const {
    const std::string told = training_.coordinates() ? name + "@" + schedule().name() : name;
    return {told, resolve_solver(SolverName::parse(name), family_.nfe(), options_.field).at()};
  }

  // The published recipe starts from these.
  std::vector<NamedSolver> plain() const {
    std::vector<NamedSolver> list;
    for (const auto& name : plain_starts(family_, schedule())) list.push_back(resolved(name));
    return list;
  }

  ChosenStart fitted() const {
    const auto report = [&](double done) {
      if (options_.on_progress) options_.on_progress("fitting", done);
    };
    const std::vector<FoundFit> fits = search_fits(
        training_, family_, schedule(), fit_search_options(options_), finalists_, counts_, report);
    const FoundFit& best = fits[best_measured(fits)];
    return {best, best.log_errors};
  }

  // The nearest of the catalogue on any of the automatic grids.
  NamedSolver nearest() const {
    const auto grids = automatic_grids(family_.nfe(), schedule(), training_.data_deviation());
    check_affordable(grids);
    std::vector<NamedSolver> all;
    for (const auto& grid : grids) all.push_back(nearest_on(grid));
    return nearest_of(all, options_.fit.samples, nullptr);
  }

  void check_affordable(const std::vector<std::string>& grids) const {
    int64_t runs = static_cast<int64_t>(grids.size()) * options_.fit.samples;
    for (const auto& grid : grids) {
      runs += static_cast<int64_t>(start_candidates(grid, family_.nfe()).size()) * kTriedOn;
    }
    const int64_t cost = runs * family_.shape().calls(), most = options_.fit.most_forwards;
    if (most == 0 || cost <= most) return;
    throw usage_error(
        "to choose a start takes up to {} calls, and {} are to be spent on it; name a start, or "
        "give "
        "samples with their trajectories, of which a fit needs fewer",
        grouped(cost), grouped(most));
  }

  static constexpr int64_t kTriedOn = 8;  // samples: enough to tell good from bad

  NamedSolver nearest_on(const std::string& grid) const {
    std::vector<NamedSolver> candidates;
    for (const auto& name : start_candidates(grid, family_.nfe())) {
      candidates.push_back(resolved(name));
    }
    return nearest_of(candidates, kTriedOn, [&](double done) {
      if (options_.on_progress) options_.on_progress("choosing a start on " + grid, done);
    });
  }

  NamedSolver nearest_of(const std::vector<NamedSolver>& candidates, int64_t samples,
                         const std::function<void(double)>& report) const {
    std::vector<NsSolver> solvers;
    for (const NamedSolver& candidate : candidates) solvers.push_back(candidate.solver);
    return candidates[nearest_solver(training_, solvers, samples, counts_, report)];
  }

  // Which is the best as it is, on all validation samples; the first where none is finite there.
  size_t best_measured(const std::vector<FoundFit>& candidates) const {
    double least = std::numeric_limits<double>::infinity();
    size_t best = 0;
    for (size_t k = 0; k < candidates.size() && candidates.size() > 1; ++k) {
      try {
        const double loss = mean(
            validation_.log_errors(candidates[k].solver, first_samples(validation_), measured_));
        if (!(loss < least)) continue;
        least = loss;
        best = k;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::diverged) throw;
      }
    }
    return best;
  }

  const Samples& training_;
  const Samples& validation_;
  const Family& family_;
  const DistillOptions& options_;
  size_t finalists_;
  Counts* counts_;
  Counts* measured_;
};

}  // namespace

FitSearchOptions fit_search_options(const DistillOptions& options) {
  FitSearchOptions search = options.fit;
  if (options.method == Method::fit) search.rounds = std::min(search.rounds, 1);
  return search;
}

std::vector<ChosenStart> chosen_starts(const Samples& training, const Samples& validation,
                                       const Family& family, const DistillOptions& options,
                                       size_t finalists, Counts* counts, Counts* measured) {
  return StartChoice(training, validation, family, options, finalists, counts, measured).choose();
}

}  // namespace bespoke::detail
