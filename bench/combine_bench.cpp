#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "bespoke/core/combine.h"
#include "targets.h"

namespace bespoke::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTerms = 9;  // x_0 and the velocities of eight evaluations
constexpr double kMegabyte = 1e6, kGigabyte = 1e9;

double seconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bytes per second of the memory itself, with LibTorch's own threads. A kernel that only reads and
// STREAM's triad stress it differently; the better of the two counts. Bytes are what a kernel asks
// for, as STREAM counts them, for these as for combine.
class MemoryBandwidth {
 public:
  double measure() { return std::max(reading(), triad()); }

 private:
  static constexpr int64_t kSize = int64_t{1} << 24;  // 64 MB an array, twice a usual cache
  using Array = std::vector<float>;

  template <class Work>
  static double timed(int64_t arrays, Work work) {
    const double time = seconds([&] { at::parallel_for(0, kSize, 1, work); });
    return static_cast<double>(arrays * kSize) * sizeof(float) / time;
  }

  double reading() {
    const float *a = a_.data(), *b = b_.data(), *c = c_.data(), *d = d_.data();
    return timed(4, [=](int64_t begin, int64_t end) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = begin; i < end; ++i) sum += (a[i] + b[i]) + (c[i] + d[i]);
      benchmark::DoNotOptimize(sum);
    });
  }

  double triad() {
    float* a = a_.data();
    const float *b = b_.data(), *c = c_.data();
    return timed(3, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 0.5F * c[i];
    });
  }

  Array a_ = Array(kSize, 1), b_ = Array(kSize, 1), c_ = Array(kSize, 1), d_ = Array(kSize, 1);
};

// One step's combination in float32 as `sample` does it. The bandwidth is measured right beside
// each combination, so that other work on the machine slows both.
void combine_step(benchmark::State& state, bool in_cache) {
  constexpr double kBytesPerIteration = 500 * kMegabyte;
  const int64_t size = state.range(0);
  const double bytes = static_cast<double>((kTerms + 1) * size) * sizeof(float);
  const int repeats = static_cast<int>(std::max(1.0, kBytesPerIteration / bytes));
  std::vector<torch::Tensor> terms;
  std::vector<double> coefficients;
  for (int64_t j = 0; j < kTerms; ++j) {
    terms.push_back(torch::randn({size}));
    coefficients.push_back(1.0 / static_cast<double>(j + 2));
  }
  torch::Tensor x = torch::empty({size});
  MemoryBandwidth memory;
  std::vector<double> rates, bandwidths, ratios;
  for (auto unused : state) {
    bandwidths.push_back(memory.measure());
    combine(x, terms, coefficients);  // brings a small case back into the cache
    const double time = seconds([&] {
      for (int k = 0; k < repeats; ++k) combine(x, terms, coefficients);
    });
    state.SetIterationTime(time / repeats);
    rates.push_back(bytes * repeats / time);
    ratios.push_back(rates.back() / bandwidths.back());
  }
  state.counters["MB"] = bytes / kMegabyte;
  state.counters["GB/s"] = median(rates) / kGigabyte;
  state.counters["memory_GB/s"] = median(bandwidths) / kGigabyte;
  state.counters["ratio"] = median(ratios);
  state.counters["threads"] = at::get_num_threads();
  record({in_cache ? "combine of memory bandwidth, in cache" : "combine of memory bandwidth",
          Bound::at_least, 60},
         median(ratios));
}

BENCHMARK_CAPTURE(combine_step, cache, true)->Arg(1 << 16)->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(combine_step, memory, false)
    ->Arg(3 << 20)
    ->Arg(6 << 20)
    ->Iterations(15)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace bespoke::bench
