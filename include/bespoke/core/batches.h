#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace bespoke {

// Calls work(begin, end, report) for consecutive ranges of at most `batch` of `count` samples.
// Work says how far it is by report(fraction of its range), which becomes progress over all.
template <class Work>
void for_each_batch(int64_t count, int64_t batch, const std::function<void(double)>& on_progress,
                    Work work) {
  for (int64_t begin = 0; begin < count; begin += batch) {
    const int64_t end = std::min(count, begin + batch);
    const auto report = [&](double done) {
      if (!on_progress) return;
      on_progress((static_cast<double>(begin) + done * static_cast<double>(end - begin)) /
                  static_cast<double>(count));
    };
    work(begin, end, report);
  }
}

}  // namespace bespoke
