#include <benchmark/benchmark.h>

#include "gpu_bench.h"
#include "targets.h"

// Ends with 0 whether or not the targets are met: timings depend on what else the machine does.
int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  bespoke::bench::register_gpu_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  bespoke::bench::print_targets();
  return 0;
}
