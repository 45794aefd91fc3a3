#pragma once

#include <cstdint>
#include <optional>

#include "bespoke/distill/state.h"

namespace bespoke {

// Calls that a distillation may make, in single samples, all of them counted: of the reference, of
// choosing starts, of training and of measuring.
class Budget {
 public:
  // A budget of `most` calls in all, 0 for no limit, of which the reference has spent some.
  Budget(int64_t most, int64_t reference) : most_(most), reference_(reference) {}

  bool is_limited() const { return most_ > 0; }

  // What is left once `later` calls that are yet to come are set aside; none where there is no
  // limit.
  std::optional<int64_t> left(const DistillState& state, int64_t later = 0) const {
    if (!is_limited()) return {};
    return most_ - reference_ - state.screening.forwards - state.training.forwards -
           state.validation.forwards - later;
  }

 private:
  int64_t most_, reference_;
};

}  // namespace bespoke
