#include "bespoke/distill/objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"

namespace bespoke {

namespace {

// Streams below are in use elsewhere: noise, and the parameters of mixtures.
constexpr uint32_t kFirstStream = 16;

uint32_t batch_stream(int64_t iteration) {
  return kFirstStream + 2 * static_cast<uint32_t>(iteration);
}

}  // namespace

std::vector<std::optional<LinearModel>> Objective::against(
    const NsSolver& solver, const std::vector<const Linearisation*>& all, Counts* counts) const {
  std::vector<std::optional<LinearModel>> models;
  for (const Linearisation* each : all) {
    try {
      models.push_back(each->against(solver, counts));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      models.push_back({});
    }
  }
  return models;
}

void Objective::run_ahead(const std::vector<NsSolver>& /*solvers*/,
                          const std::vector<int64_t>& /*subset*/, Counts* /*counts*/) const {}

std::vector<int64_t> first_samples(const Objective& objective, int64_t count) {
  std::vector<int64_t> samples(static_cast<size_t>(std::min(count, objective.count())));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

std::vector<int64_t> first_samples(const Objective& objective) {
  return first_samples(objective, objective.count());
}

std::vector<int64_t> draw_batch(uint64_t seed, int64_t iteration, int64_t count, int64_t batch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const auto keys = uniform_numbers(seed, batch_stream(iteration), order.size());
  std::stable_sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
    return keys[static_cast<size_t>(left)] < keys[static_cast<size_t>(right)];
  });
  order.resize(static_cast<size_t>(std::min(count, batch)));
  return order;
}

std::vector<int64_t> fresh_batch(int64_t iteration, int64_t count, int64_t batch) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < std::min(count, batch); ++i) {
    samples.push_back((iteration * std::min(count, batch) + i) % count);
  }
  return samples;
}

std::vector<int64_t> judges_of(int64_t iteration, int64_t count, int64_t batch, int64_t others) {
  std::vector<int64_t> samples = fresh_batch(iteration, count, batch);
  const int64_t next = samples.back() + 1, left = count - static_cast<int64_t>(samples.size());
  for (int64_t i = 0; i < std::min(others, left); ++i) samples.push_back((next + i) % count);
  return samples;
}

double psnr_of_loss(double loss, double peak) { return psnr(std::exp(loss), peak); }

}  // namespace bespoke
