#include "memory_limit.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

bool is_limited(decltype(RLIMIT_AS) resource) {
  rlimit limit = {};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// Whether so many bytes could be had now.
bool could_take(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes);
  return true;
}

}  // namespace

void take_memory_of_threads(int threads) {
  if (!is_limited(RLIMIT_AS) && !is_limited(RLIMIT_DATA)) return;
  constexpr size_t kMegabyte = 1 << 20, kEachThread = 160;
  const size_t needed = kEachThread * static_cast<size_t>(threads);
  if (!could_take(needed * kMegabyte)) {
    throw Error(ErrorKind::device,
                fmt::format("memory is limited (ulimit -v or -d), and {} threads take {} MB more; "
                            "raise the limit or use --threads 1",
                            threads, needed));
  }
  // A product that is large enough for all threads to take part.
  constexpr int64_t kSize = 1024;
  const torch::Tensor any = torch::zeros({kSize, kSize});
  torch::mm(any, any);
}

}  // namespace bespoke
