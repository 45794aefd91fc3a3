#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/base/random.h"

namespace bespoke {

// The random choices that example number `index` of a seed is made by, one after another: the same
// whatever was drawn before. At most `count` of them.
class Choices {
 public:
  Choices(uint64_t seed, uint64_t index, uint32_t stream, size_t count)
      : numbers_(uniform_numbers(seed ^ (index * 0x9E3779B97F4A7C15u), stream, count)) {}

  double number() { return numbers_.at(next_++); }
  int64_t one_of(size_t count) {
    return static_cast<int64_t>(number() * static_cast<double>(count));
  }
  bool with(double probability) { return number() < probability; }
  double between(double least, double most) { return least + (most - least) * number(); }
  double around(double middle, double spread) { return middle + spread * (2 * number() - 1); }

 private:
  std::vector<double> numbers_;
  size_t next_ = 0;
};

}  // namespace bespoke
