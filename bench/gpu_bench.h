#pragma once

namespace bespoke::bench {

// What only a machine with a GPU can measure; nothing elsewhere.
void register_gpu_benchmarks();

}  // namespace bespoke::bench
