#include "bespoke/distill/best_of_catalogue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bespoke/base/mean.h"
#include "bespoke/base/packing.h"
#include "bespoke/distill/family.h"
#include "bespoke/distill/sample_choice.h"
#include "bespoke/distill/starts.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/translation.h"

namespace bespoke {

using namespace detail;

namespace {

std::vector<std::string> all_grids(int nfe, const Schedule& schedule, double data_deviation) {
  std::vector<std::string> grids;
  for (const auto& entry : grid_registry()) {
    if (entry.kind == GridKind::rule) grids.push_back(entry.name);
  }
  for (const auto& grid : automatic_grids(nfe, schedule, data_deviation)) {
    if (std::find(grids.begin(), grids.end(), grid) == grids.end()) grids.push_back(grid);
  }
  return grids;
}

// Equal for solvers that compute the same but for rounding.
std::vector<int64_t> rounded_coefficients(const NsSolver& solver) {
  constexpr double kDigits = 1e9;
  std::vector<int64_t> rounded;
  for (const double value : coefficients_of(solver)) {
    rounded.push_back(static_cast<int64_t>(std::llround(value * kDigits)));
  }
  return rounded;
}

// The mean log error of each solver on the first samples; infinite where it diverges there.
std::vector<double> losses_on(const Samples& samples, const std::vector<NamedSolver>& solvers,
                              int64_t count, Team& team,
                              const std::function<void(size_t)>& on_measured) {
  const std::vector<int64_t> subset = first_samples(samples, count);
  const auto together = static_cast<size_t>(
      std::max<int64_t>(1, samples.batch() / static_cast<int64_t>(subset.size())));
  const Share share = share_of(static_cast<int64_t>(solvers.size()), team);
  const auto last = static_cast<size_t>(share.end);
  const auto parts = exchange_work(team, [&] {
    std::vector<double> losses;
    for (auto begin = static_cast<size_t>(share.begin); begin < last; begin += together) {
      std::vector<NsSolver> some;
      for (size_t k = begin; k < std::min(last, begin + together); ++k) {
        const CoordinatesPtr& coordinates = samples.coordinates();
        some.push_back(coordinates ? to_canonical(solvers[k].solver, *coordinates)
                                   : solvers[k].solver);
      }
      Counts counts;
      for (const auto& runs : samples.run_each(some, subset, &counts)) {
        losses.push_back(runs ? mean(samples.log_errors(*runs))
                              : std::numeric_limits<double>::infinity());
      }
      on_measured(some.size() * static_cast<size_t>(team.size()));
    }
    return Packer().add(losses).bytes();
  });
  std::vector<double> all;
  for (const std::string& part : parts) {
    const std::vector<double> losses = Unpacker(part).numbers();
    all.insert(all.end(), losses.begin(), losses.end());
  }
  return all;
}

// Those with the least losses, the best first.
std::vector<NamedSolver> ranked(const std::vector<NamedSolver>& solvers,
                                const std::vector<double>& losses) {
  std::vector<std::pair<double, size_t>> ranking;
  for (size_t k = 0; k < losses.size(); ++k) ranking.emplace_back(losses[k], k);
  std::sort(ranking.begin(), ranking.end());
  std::vector<NamedSolver> sorted;
  for (const auto& place : ranking) sorted.push_back(solvers[place.second]);
  return sorted;
}

}  // namespace

std::vector<NamedSolver> catalogue_contenders(
    int nfe, const FieldDescription& field, double data_deviation,
    const std::function<bool(const SolverName&)>& wanted) {
  std::vector<std::string> coordinates = {""};
  if (field.schedule->name() != kStraightest) coordinates.push_back(kStraightest);
  std::set<std::vector<int64_t>> seen;
  std::vector<NamedSolver> contenders;
  for (const auto& entry : catalogue()) {
    if (entry.steps(nfe) == 0) continue;
    for (const auto& grid : all_grids(nfe, *field.schedule, data_deviation)) {
      for (const auto& schedule : coordinates) {
        const SolverName name = {"", entry.name, grid, schedule};
        if (wanted && !wanted(name)) continue;
        const NsSolver solver = resolve_solver(name, nfe, field).at();
        if (seen.insert(rounded_coefficients(solver)).second) {
          contenders.push_back({to_string(name), solver});
        }
      }
    }
  }
  return contenders;
}

NamedSolver best_of_catalogue(const Samples& samples, int nfe, const FieldDescription& field,
                              const std::function<void(double)>& on_progress, Team& team) {
  struct Round {
    size_t contenders;
    int64_t samples;
  };
  std::vector<NamedSolver> left = catalogue_contenders(nfe, field, samples.data_deviation());
  const std::vector<Round> rounds = {{left.size(), 1}, {64, 4}, {12, samples.count()}};
  double planned = 0, done = 0;
  for (const Round& round : rounds) {
    planned += static_cast<double>(std::min(round.contenders, left.size())) *
               static_cast<double>(round.samples);
  }
  for (const Round& round : rounds) {
    left.resize(std::min(round.contenders, left.size()));
    const auto losses = losses_on(samples, left, round.samples, team, [&](size_t more) {
      done += static_cast<double>(round.samples) * static_cast<double>(more);
      if (on_progress) on_progress(std::min(1.0, done / planned));
    });
    left = ranked(left, losses);
  }
  return left.front();
}

}  // namespace bespoke
