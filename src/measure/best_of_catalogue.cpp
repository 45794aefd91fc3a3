#include "bespoke/measure/best_of_catalogue.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bespoke/distill/family.h"
#include "bespoke/distill/starts.h"
#include "bespoke/model/fields.h"
#include "bespoke/solver/grid.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/errors.h"
#include "bespoke/tensor/tensor_bytes.h"

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

// Solvers of as many evaluations side by side in one batch, each on all pairs: row s * count + k is
// pair k by solver s. Most solvers here are looked at on one pair alone, and models like batches.
torch::Tensor sample_side_by_side(const std::vector<NamedSolver>& solvers, size_t begin, size_t end,
                                  const Field& field, const Pairs& pairs, int64_t count) {
  const torch::NoGradGuard no_grad;
  const auto many = static_cast<int64_t>(end - begin);
  const auto per_row = [&](const auto& value) {
    std::vector<double> values;
    for (size_t s = begin; s < end; ++s) {
      values.insert(values.end(), static_cast<size_t>(count), value(solvers[s].solver));
    }
    return values;
  };
  const Conditions conditions = repeat(slice(pairs.conditions, 0, count), many);
  const torch::Tensor noise = repeat(pairs.x0.slice(0, 0, count), many);
  torch::Tensor start = torch::empty_like(noise), x = torch::empty_like(noise);
  combine_per_sample(start, {noise}, {per_row([](const NsSolver& s) { return s.start_scale; })});
  std::vector<torch::Tensor> terms = {start};
  for (size_t i = 0; i < solvers[begin].solver.a.size(); ++i) {
    const auto t = per_row([i](const NsSolver& s) { return s.times[i]; });
    const torch::Tensor u =
        field.velocity(i == 0 ? start : x, torch::tensor(t, torch::kDouble), conditions);
    terms.push_back(u.contiguous());
    std::vector<std::vector<double>> coefficients = {
        per_row([i](const NsSolver& s) { return s.a[i]; })};
    for (size_t j = 0; j <= i; ++j) {
      coefficients.push_back(per_row([i, j](const NsSolver& s) { return s.b[i][j]; }));
    }
    x = torch::empty_like(noise);
    combine_per_sample(x, terms, coefficients);
  }
  return x;
}

// The mean PSNR of each solver on the first pairs; the worst there is where one diverges.
std::vector<double> measure(const std::vector<NamedSolver>& solvers, const Field& field,
                            const Pairs& pairs, int64_t count, int64_t batch, Team& team,
                            const std::function<void(size_t)>& on_measured) {
  const auto together = static_cast<size_t>(std::max<int64_t>(1, batch / count));
  const torch::Tensor truth = pairs.x1.slice(0, 0, count);
  const Share share = share_of(static_cast<int64_t>(solvers.size()), team);
  const auto last = static_cast<size_t>(share.end);
  const auto parts = exchange_work(team, [&] {
    std::vector<double> figures;
    for (auto begin = static_cast<size_t>(share.begin); begin < last; begin += together) {
      const size_t end = std::min(last, begin + together);
      const torch::Tensor x = sample_side_by_side(solvers, begin, end, field, pairs, count);
      for (const auto& samples : x.split(count)) {
        const double decibels = mean_psnr(samples, truth);
        figures.push_back(std::isnan(decibels) ? -std::numeric_limits<double>::infinity()
                                               : decibels);
      }
      on_measured((end - begin) * static_cast<size_t>(team.size()));
    }
    return tensor_bytes({torch::tensor(figures, torch::kDouble)});
  });
  std::vector<double> all;
  for (const std::string& part : parts) {
    const torch::Tensor figures = tensors_of(part).front();
    all.insert(all.end(), figures.data_ptr<double>(), figures.data_ptr<double>() + figures.numel());
  }
  return all;
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
        const NsSolver solver = resolve_solver(name, nfe, field).at();
        if (seen.insert(rounded_coefficients(solver)).second) {
          contenders.push_back({to_string(name), solver});
        }
      }
    }
  }
  return contenders;
}

NamedSolver best_of_catalogue(const ModelPtr& model, int nfe, const FieldDescription& field,
                              const Pairs& pairs, int64_t batch,
                              const std::function<void(double)>& on_progress, Team& team) {
  struct Round {
    size_t contenders;
    int64_t pairs;
  };
  const double deviation = pairs.x1.square().mean().sqrt().item<double>();
  std::vector<NamedSolver> left = catalogue_contenders(nfe, field, deviation);
  const std::vector<Round> rounds = {{left.size(), 1}, {64, 4}, {12, pairs.count()}};
  double planned = 0, done = 0;
  for (const Round& round : rounds) {
    planned += static_cast<double>(std::min(round.contenders, left.size()) * round.pairs);
  }
  const VelocityField velocity(model);
  for (const Round& round : rounds) {
    left.resize(std::min(round.contenders, left.size()));
    const int64_t count = std::min(round.pairs, pairs.count());
    const auto figures = measure(left, velocity, pairs, count, batch, team, [&](size_t more) {
      done += static_cast<double>(round.pairs) * static_cast<double>(more);
      if (on_progress) on_progress(done / planned);
    });
    std::vector<std::pair<double, size_t>> ranking;
    for (size_t k = 0; k < left.size(); ++k) ranking.emplace_back(-figures[k], k);
    std::sort(ranking.begin(), ranking.end());
    std::vector<NamedSolver> ranked;
    for (const auto& place : ranking) ranked.push_back(left[place.second]);
    left = std::move(ranked);
  }
  return left.front();
}

}  // namespace bespoke
