#include <utility>

#include "bespoke/distill/sample_choice.h"
#include "optimiser.h"

namespace bespoke {

namespace {

class AdamOptimiser : public Optimiser {
 public:
  AdamOptimiser(const LossGradients& gradients, FamilyPtr family, const AdamOptions& options,
                int64_t count, uint64_t seed, int64_t iterations)
      : gradients_(gradients),
        family_(std::move(family)),
        options_(options),
        count_(count),
        seed_(seed),
        iterations_(iterations) {}

  double iterate(StartState& start, std::optional<int64_t> /*left*/, Counts* counts) override {
    const auto samples = draw_batch(seed_, start.iteration, count_, options_.batch);
    const LossGradient at = gradients_.at(family_->solver(start.theta), samples, counts);
    const auto gradient = transposed_product(family_->jacobian(start.theta), at.gradient);
    adam_update(options_, start.iteration, iterations_, gradient, start.adam, start.theta);
    return at.loss;
  }

  int64_t least_cost(const StartState& /*start*/) const override {
    return family_->nfe() * options_.batch;
  }
  int64_t batch(const StartState& /*start*/) const override { return options_.batch; }
  int64_t validation_interval() const override { return 100; }

 private:
  const LossGradients& gradients_;
  FamilyPtr family_;
  const AdamOptions options_;
  int64_t count_;
  uint64_t seed_;
  int64_t iterations_;
};

}  // namespace

std::unique_ptr<Optimiser> adam_optimiser(const LossGradients& gradients, FamilyPtr family,
                                          const AdamOptions& options, int64_t count, uint64_t seed,
                                          int64_t iterations) {
  return std::make_unique<AdamOptimiser>(gradients, std::move(family), options, count, seed,
                                         iterations);
}

}  // namespace bespoke
