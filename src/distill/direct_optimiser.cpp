#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/distill/optimiser.h"
#include "bespoke/distill/sample_choice.h"

namespace bespoke {

namespace {

class DirectOptimiser : public Optimiser {
 public:
  DirectOptimiser(const Samples& samples, FamilyPtr family, const DirectOptions& options,
                  std::optional<int64_t> budget)
      : samples_(samples), family_(std::move(family)), options_(options), budget_(budget) {}

  double iterate(StartState& start, std::optional<int64_t> left, Counts* counts) override {
    const int64_t count = samples_.count();
    DirectOptions options = options_;
    if (left) {
      const int64_t trials = (*left - cost_before_trials(start)) / trial_cost();
      options.attempts =
          static_cast<int>(std::min<int64_t>(attempts_for(options_, family_->nfe()), trials));
    }
    return direct_iteration(samples_, *family_, options,
                            fresh_batch(start.iteration, count, batch()),
                            judges_of(start.iteration, count, batch(), other_judges()),
                            start.direct, start.theta, counts);
  }

  int64_t least_cost(const StartState& start) const override {
    return cost_before_trials(start) + trial_cost();
  }

  // Small samples say little each. Where a Jacobian is dear, for what there is to spend, more
  // iterations gain more than larger ones; where samples are few, half of them at a time.
  int64_t batch() const override {
    constexpr double kNumbersPerParameter = 16;
    constexpr int64_t kMost = 8, kFewest = 4, kIterations = 10;
    if (options_.batch > 0) return options_.batch;
    const double needed = kNumbersPerParameter * static_cast<double>(family_->parameter_count()) /
                          samples_.sample_size();
    const bool dear = is_dear(family_->nfe()) || samples_.count() < 2 * kMost ||
                      (budget_ && kIterations * jacobian_cost(kMost) > *budget_);
    return std::max(dear ? kFewest : kMost, static_cast<int64_t>(std::ceil(needed)));
  }

  int64_t validation_interval() const override { return 1; }

 private:
  int64_t other_judges() const { return judges_for(options_, family_->nfe()); }

  // Of one run of a solver, a sample.
  int64_t calls() const { return family_->shape().calls(); }

  // Of an iteration on so many samples, without those remembered and the judges.
  int64_t jacobian_cost(int64_t batch) const {
    return std::min(samples_.count(), batch) * calls_of_jacobian(family_->shape());
  }

  // A solver on the judges.
  int64_t trial_cost() const {
    return std::min(samples_.count(), batch() + other_judges()) * calls();
  }

  int64_t cost_before_trials(const StartState& start) const {
    int64_t cost = jacobian_cost(batch()) + trial_cost();
    if (start.iteration == 0) cost += 2 * calls() * batch();  // answer_noise
    for (const Remembered& entry : start.direct.memory) {
      cost += calls() * static_cast<int64_t>(entry.samples.size());
    }
    return cost;
  }

  const Samples& samples_;
  FamilyPtr family_;
  const DirectOptions options_;
  std::optional<int64_t> budget_;
};

}  // namespace

std::unique_ptr<Optimiser> direct_optimiser(const Samples& samples, FamilyPtr family,
                                            const DirectOptions& options,
                                            std::optional<int64_t> budget) {
  return std::make_unique<DirectOptimiser>(samples, std::move(family), options, budget);
}

}  // namespace bespoke
