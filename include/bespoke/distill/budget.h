#pragma once

#include <cstdint>
#include <optional>

#include "bespoke/distill/state.h"

namespace bespoke {

// Evaluations of single samples that a distillation may spend: on choosing starts and on training,
// and on measuring where that counts too.
class Budget {
 public:
  // 0 is no limit.
  Budget(int64_t most, bool counts_validation)
      : most_(most), counts_validation_(counts_validation) {}

  bool is_limited() const { return most_ > 0; }
  bool counts_validation() const { return counts_validation_; }

  // What is left now.
  std::optional<int64_t> left(const DistillState& state) const {
    if (!is_limited()) return {};
    const int64_t measured = counts_validation_ ? state.validation.forwards : 0;
    return most_ - state.screening.forwards - state.training.forwards - measured;
  }

 private:
  int64_t most_;
  bool counts_validation_;
};

}  // namespace bespoke
