#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "bespoke/tensor/combine.h"
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

// The widest vectors the machine has, so that the bandwidth is the memory's and not the kernel's.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BESPOKE_BENCH_VECTOR_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BESPOKE_BENCH_VECTOR_VERSIONS
#endif

BESPOKE_BENCH_VECTOR_VERSIONS float read_four(const float* a, const float* b, const float* c,
                                              const float* d, int64_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += (a[i] + b[i]) + (c[i] + d[i]);
  return sum;
}

BESPOKE_BENCH_VECTOR_VERSIONS void triad(float* a, const float* b, const float* c, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) a[i] = b[i] + 0.5F * c[i];
}

// Bytes per second of the memory itself, with LibTorch's own threads. A kernel that only reads and
// STREAM's triad stress it differently; the better of the two counts. Bytes are what a kernel asks
// for, as STREAM counts them, for these as for combine.
class MemoryBandwidth {
 public:
  double measure() {
    const double reading = timed(4, [this](size_t i, int64_t size) {
      benchmark::DoNotOptimize(read_four(&a_[i], &b_[i], &c_[i], &d_[i], size));
    });
    const double triads =
        timed(3, [this](size_t i, int64_t size) { triad(&a_[i], &b_[i], &c_[i], size); });
    return std::max(reading, triads);
  }

 private:
  static constexpr size_t kSize = size_t{1} << 24;  // 64 MB an array, twice a usual cache
  using Array = std::vector<float>;

  template <class Work>
  static double timed(size_t arrays, Work work) {
    const double time = seconds([&] {
      at::parallel_for(0, kSize, 1, [&](int64_t begin, int64_t end) {
        work(static_cast<size_t>(begin), end - begin);
      });
    });
    return static_cast<double>(arrays * kSize * sizeof(float)) / time;
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
