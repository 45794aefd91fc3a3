#include "bespoke/distill/sample_choice.h"

#include <algorithm>
#include <numeric>

#include "bespoke/base/random.h"

namespace bespoke {

namespace {

// Streams below are in use elsewhere: noise, and the parameters of mixtures.
constexpr uint32_t kFirstStream = 16;

uint32_t batch_stream(int64_t iteration) {
  return kFirstStream + 2 * static_cast<uint32_t>(iteration);
}

}  // namespace

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

std::vector<int64_t> samples_from(int64_t first, int64_t count, int64_t batch) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < std::min(count, batch); ++i) samples.push_back((first + i) % count);
  return samples;
}

}  // namespace bespoke
