#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/distill/state.h"

namespace bespoke {

// When another iteration of a start is not worth its calls: after so many measurements in a row
// without a gain of `least_gain` decibels. Few samples may gain nothing by chance, so at least so
// many must have been looked at since the last gain.
struct Patience {
  int measurements = 3;
  double least_gain = 0.05;
  int64_t samples = 24;

  bool is_over(const StartState& start, int64_t batch) const {
    return start.stale >= measurements && start.stale * batch >= samples;
  }

  // Takes a measurement of the start as it is; the best theta is kept.
  void take(StartState& start, double psnr, double error) const {
    start.validation_psnr = psnr;
    start.stale = psnr > start.best_psnr + least_gain ? 0 : start.stale + 1;
    if (psnr <= start.best_psnr) return;
    start.best_psnr = psnr;
    start.best_error = error;
    start.best_theta = start.theta;
  }
};

}  // namespace bespoke
