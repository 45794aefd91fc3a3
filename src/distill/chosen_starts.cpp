#include "chosen_starts.h"

#include <algorithm>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/screen.h"
#include "bespoke/distill/starts.h"

namespace bespoke::detail {

namespace {

class StartChoice {
 public:
  StartChoice(const Samples& training, const Family& family, const DistillOptions& options,
              size_t finalists, Counts* counts)
      : training_(training),
        family_(family),
        options_(options),
        finalists_(finalists),
        counts_(counts) {}

  std::vector<ChosenStart> choose() const {
    if (!options_.starts.empty()) return as_chosen(options_.starts);
    if (options_.method == Method::adam || !family_.is_bns()) {
      const std::vector<NamedSolver> published = plain();
      return as_chosen(published.empty() ? std::vector<NamedSolver>{nearest()} : published);
    }
    if (training_.trajectories() > 0) return fitted();
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
    const std::string shown_name = training_.coordinates() ? name + "@" + schedule().name() : name;
    return {shown_name,
            resolve_solver(SolverName::parse(name), family_.nfe(), options_.field).at()};
  }

  // The published recipe starts from these.
  std::vector<NamedSolver> plain() const {
    std::vector<NamedSolver> list;
    for (const auto& name : plain_starts(family_, schedule())) list.push_back(resolved(name));
    return list;
  }

  std::vector<ChosenStart> fitted() const {
    const auto report = [&](double done) {
      if (options_.on_progress) options_.on_progress("fitting", done);
    };
    const std::vector<FoundFit> fits = search_fits(
        training_, family_, schedule(), fit_search_options(options_), finalists_, counts_, report);
    std::vector<ChosenStart> chosen;
    for (const FoundFit& fit : fits) chosen.push_back({fit, fit.log_errors});
    return chosen;
  }

  // The nearest of the catalogue on any of the automatic grids.
  NamedSolver nearest() const {
    const auto grids = automatic_grids(family_.nfe(), schedule(), training_.data_deviation());
    check_affordable(grids);
    std::vector<NamedSolver> all;
    for (const auto& grid : grids) {
      if (const auto candidate = nearest_on(grid)) all.push_back(*candidate);
    }
    if (all.empty()) {
      throw usage_error("the family {} holds none of the starts that are tried; name one",
                        family_.name());
    }
    return nearest_of(all, options_.fit.samples, nullptr);
  }

  void check_affordable(const std::vector<std::string>& grids) const {
    int64_t runs = static_cast<int64_t>(grids.size()) * options_.fit.samples;
    for (const auto& grid : grids) {
      runs += static_cast<int64_t>(start_candidates(grid, family_.nfe()).size()) * kTriedOn;
    }
    const int64_t cost = runs * family_.shape().calls(), most = options_.fit.most_calls;
    if (most == 0 || cost <= most) return;
    throw usage_error(
        "to choose a start takes up to {} calls, and {} are to be spent on it; name a start, or "
        "give "
        "samples with their trajectories, of which a fit needs fewer",
        grouped(cost), grouped(most));
  }

  static constexpr int64_t kTriedOn = 8;  // samples: enough to tell good from bad

  // The solver of the family that is nearest to a candidate; none where the family does not hold
  // it.
  std::optional<NamedSolver> held(NamedSolver candidate) const {
    if (family_.is_bns()) return candidate;
    try {
      candidate.solver = family_.solver(family_.parameters(candidate.solver));
      return candidate;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_input) throw;
      return std::nullopt;
    }
  }

  std::optional<NamedSolver> nearest_on(const std::string& grid) const {
    std::vector<std::string> names = start_candidates(grid, family_.nfe());
    // A family of solvers without history holds none of these.
    if (!family_.is_bns()) names.push_back("euler/" + grid);
    std::vector<NamedSolver> candidates;
    for (const auto& name : names) {
      if (auto candidate = held(resolved(name))) candidates.push_back(*std::move(candidate));
    }
    if (candidates.empty()) return std::nullopt;
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

  const Samples& training_;
  const Family& family_;
  const DistillOptions& options_;
  size_t finalists_;
  Counts* counts_;
};

}  // namespace

FitSearchOptions fit_search_options(const DistillOptions& options) {
  FitSearchOptions search = options.fit;
  if (options.method == Method::fit) search.rounds = std::min(search.rounds, 1);
  return search;
}

std::vector<ChosenStart> chosen_starts(const Samples& training, const Family& family,
                                       const DistillOptions& options, size_t finalists,
                                       Counts* counts) {
  return StartChoice(training, family, options, finalists, counts).choose();
}

}  // namespace bespoke::detail
