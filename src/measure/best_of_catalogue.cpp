#include "bespoke/measure/best_of_catalogue.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/distill/family.h"
#include "bespoke/distill/starts.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/grid.h"
#include "bespoke/tensor/errors.h"

namespace bespoke {

namespace {

constexpr char kStraightest[] = "fm-ot";

std::vector<std::string> all_grids(int nfe, const Schedule& schedule, double data_deviation) {
  std::vector<std::string> grids;
  for (const auto& entry : grid_registry()) {
    if (entry.name != "custom") grids.push_back(entry.name);
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

double psnr_or_worst(const NsSolver& solver, const Field& field, const Pairs& pairs,
                     int64_t count) {
  try {
    const torch::Tensor x =
        sample(solver, field, pairs.x0.slice(0, 0, count), slice(pairs.conditions, 0, count));
    const double decibels = mean_psnr(x, pairs.x1.slice(0, 0, count));
    return std::isnan(decibels) ? -std::numeric_limits<double>::infinity() : decibels;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return -std::numeric_limits<double>::infinity();
  }
}

}  // namespace

std::vector<NamedSolver> catalogue_contenders(int nfe, const FieldDescription& field,
                                              double data_deviation) {
  std::vector<std::string> coordinates = {""};
  if (field.schedule->name() != kStraightest) coordinates.push_back(kStraightest);
  std::set<std::vector<int64_t>> seen;
  std::vector<NamedSolver> contenders;
  for (const auto& entry : catalogue()) {
    if (entry.steps(nfe) == 0) continue;
    for (const auto& grid : all_grids(nfe, *field.schedule, data_deviation)) {
      for (const auto& schedule : coordinates) {
        const SolverName name = {"", entry.name, grid, schedule};
        const NsSolver solver = resolve_solver(name, nfe, field).solver;
        if (seen.insert(rounded_coefficients(solver)).second) {
          contenders.push_back({to_string(name), solver});
        }
      }
    }
  }
  return contenders;
}

NamedSolver best_of_catalogue(const ModelPtr& model, int nfe, const FieldDescription& field,
                              const Pairs& pairs, const std::function<void(double)>& on_progress) {
  struct Round {
    size_t contenders;
    int64_t pairs;
  };
  const double deviation = pairs.x1.square().mean().sqrt().item<double>();
  std::vector<NamedSolver> left = catalogue_contenders(nfe, field, deviation);
  const std::vector<Round> rounds = {{left.size(), 2}, {64, 8}, {12, pairs.count()}};
  double planned = 0, done = 0;
  for (const Round& round : rounds) {
    planned += static_cast<double>(std::min(round.contenders, left.size()) * round.pairs);
  }
  const VelocityField velocity(model);
  for (const Round& round : rounds) {
    left.resize(std::min(round.contenders, left.size()));
    const int64_t count = std::min(round.pairs, pairs.count());
    std::vector<std::pair<double, size_t>> ranking;
    for (size_t k = 0; k < left.size(); ++k) {
      ranking.emplace_back(-psnr_or_worst(left[k].solver, velocity, pairs, count), k);
      done += static_cast<double>(round.pairs);
      if (on_progress) on_progress(done / planned);
    }
    std::sort(ranking.begin(), ranking.end());
    std::vector<NamedSolver> ranked;
    for (const auto& place : ranking) ranked.push_back(left[place.second]);
    left = std::move(ranked);
  }
  return left.front();
}

}  // namespace bespoke
