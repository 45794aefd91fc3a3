#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <utility>
#include <vector>

#include "bespoke/model/function_model.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/noise.h"
#include "targets.h"

namespace bespoke::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kBatch = 16;
constexpr int kEvaluations = 8;
constexpr auto kCostPerSample = std::chrono::milliseconds(1);

// A small network in float32, as far as time goes; `busy` is told the time spent inside.
ModelPtr busy_model(Prediction prediction, const std::vector<int64_t>& shape, Seconds& busy) {
  const auto predict = [&busy](const torch::Tensor& x, const torch::Tensor&, const Conditions&) {
    const auto start = Clock::now();
    torch::Tensor output = 0.5 * x;
    while (Clock::now() - start < x.size(0) * kCostPerSample) {
    }
    busy += Clock::now() - start;
    return output;
  };
  return function_model(prediction, vp_schedule(), shape, predict);
}

// Combination, bookkeeping and whatever else a model that predicts noise needs, against the model's
// own time for one batch. The starting noise is drawn once per batch, whatever the
// solver, and is counted apart.
void sampling_overhead(benchmark::State& state, Prediction prediction) {
  const std::vector<int64_t> shape = {3, state.range(0), state.range(0)};
  Seconds busy(0);
  const ModelPtr model = busy_model(prediction, shape, busy);
  SolverRequest request;
  request.nfe = kEvaluations;
  request.schedule = model->schedule();
  const SolverOnField run = on_outputs(make_solver("dpm++2m", request), model);
  std::vector<double> outside, drawing;
  uint64_t seed = 0;
  for (auto unused : state) {
    const auto start = Clock::now();
    const torch::Tensor noise = normal_noise(seed++, 0, kBatch, shape).to(torch::kFloat);
    const auto drawn = Clock::now();
    benchmark::DoNotOptimize(sample(run.solver, *run.field, noise));
    const auto end = Clock::now();
    const double sampling = Seconds(end - drawn).count();
    outside.push_back(1 - std::exchange(busy, Seconds(0)).count() / sampling);
    drawing.push_back(Seconds(drawn - start).count() / sampling);
    state.SetIterationTime(sampling);
  }
  state.counters["outside_model"] = median(outside);
  state.counters["noise"] = median(drawing);
  record({fmt::format("time outside a 1 ms {0} model, 3x{1}x{1}", to_string(prediction), shape[1]),
          Bound::at_most, 3},
         median(outside));
}

#define OVERHEAD_BENCHMARK(prediction)                                     \
  BENCHMARK_CAPTURE(sampling_overhead, prediction, Prediction::prediction) \
      ->Arg(32)                                                            \
      ->Arg(64)                                                            \
      ->Iterations(15)                                                     \
      ->UseManualTime()                                                    \
      ->Unit(benchmark::kMillisecond)
OVERHEAD_BENCHMARK(velocity);
OVERHEAD_BENCHMARK(noise);

}  // namespace

}  // namespace bespoke::bench
