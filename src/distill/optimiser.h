#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "bespoke/distill/adam.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/family.h"
#include "bespoke/distill/state.h"
#include "bespoke/run/samples.h"

namespace bespoke {

// A way to improve a start, iteration by iteration.
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  // Moves start.theta once, for so many evaluations at most where there is a limit. Returns the
  // loss on the samples of the iteration before it.
  virtual double iterate(StartState& start, std::optional<int64_t> left, Counts* counts) = 0;

  // The evaluations without which the next iteration of this start cannot be done.
  virtual int64_t least_cost(const StartState& start) const = 0;

  virtual int64_t batch(const StartState& start) const = 0;  // samples of the next iteration
  virtual int64_t validation_interval() const = 0;           // iterations between measurements
};

// Gauss-Newton by differences. Where it is left open how many samples make an iteration they are
// few at first, and twice as many whenever the last measurement was no gain. What there is to spend
// decides nothing, so that a larger budget goes on from where a smaller one ended.
std::unique_ptr<Optimiser> direct_optimiser(const Samples& samples, FamilyPtr family,
                                            const DirectOptions& options);

// Adam, for so many iterations, on batches of `count` samples drawn from the seed.
std::unique_ptr<Optimiser> adam_optimiser(const LossGradients& gradients, FamilyPtr family,
                                          const AdamOptions& options, int64_t count, uint64_t seed,
                                          int64_t iterations);

}  // namespace bespoke
