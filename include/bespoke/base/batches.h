#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "bespoke/base/error.h"

namespace bespoke::detail {

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

// Calls attempt(size) and, where memory runs out, again with half the size, until it returns.
// `on_less`, where there is one, is told each smaller size.
template <class Attempt>
auto within_memory(int64_t size, const std::function<void(int64_t)>& on_less, Attempt attempt) {
  while (true) {
    try {
      return attempt(size);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      if (size <= 1) {
        throw Error(ErrorKind::device,
                    "out of memory even for one sample at a time; use a narrower precision, a "
                    "solver of fewer evaluations or a device with more memory");
      }
      size /= 2;
      if (on_less) on_less(size);
    }
  }
}

}  // namespace bespoke::detail
