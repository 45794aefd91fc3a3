#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/distill/sample_choice.h"
#include "optimiser.h"

namespace bespoke {

namespace {

class DirectOptimiser : public Optimiser {
 public:
  DirectOptimiser(const Samples& samples, FamilyPtr family, const DirectOptions& options)
      : samples_(samples), family_(std::move(family)), options_(options) {}

  double iterate(StartState& start, std::optional<int64_t> left, Counts* counts) override {
    const int64_t count = samples_.count();
    DirectOptions options = options_;
    if (left) {
      const int64_t trials = (*left - cost_before_trials(start)) / trial_cost(batch(start));
      options.attempts =
          static_cast<int>(std::min<int64_t>(attempts_for(options_, family_->nfe()), trials));
    }
    if (gained_nothing_twice(start) && options_.time_difference == 0) {
      options.time_difference = far_time_difference(family_->nfe());
    }
    DirectState& direct = start.direct;
    direct.batch = batch(start);
    const int64_t first = direct.next_sample;
    direct.next_sample += direct.batch;
    return direct_iteration(samples_, *family_, options, samples_from(first, count, direct.batch),
                            samples_from(first, count, direct.batch + other_judges()), direct,
                            start.theta, counts);
  }

  int64_t least_cost(const StartState& start) const override {
    return cost_before_trials(start) + trial_cost(batch(start));
  }

  // Small samples say little each. Few at a time gain the most for what they cost, until they gain
  // nothing; more tell then where to go. Where a Jacobian is dear, more iterations gain more.
  int64_t batch(const StartState& start) const override {
    constexpr double kNumbersPerParameter = 16;
    constexpr int64_t kFewest = 4, kMost = 16, kMostWhereDear = 8;
    if (options_.batch > 0) return options_.batch;
    const double needed = kNumbersPerParameter * static_cast<double>(family_->parameter_count()) /
                          samples_.sample_size();
    const int64_t least = std::max(kFewest, static_cast<int64_t>(std::ceil(needed)));
    const int64_t most = std::max(least, is_costly(family_->nfe()) ? kMostWhereDear : kMost);
    const int64_t now = std::max(least, start.direct.batch);
    return std::min(gained_nothing(start) ? 2 * now : now, most);
  }

  int64_t validation_interval() const override { return 1; }

 private:
  // Whether the last measurements were no gain.
  static bool gained_nothing(const StartState& start) {
    return start.iteration > 0 && start.stale > 0;
  }
  static bool gained_nothing_twice(const StartState& start) {
    return start.iteration > 1 && start.stale > 1;
  }

  int64_t other_judges() const { return judges_for(options_, family_->nfe()); }

  // The calls of one run of a solver, per sample.
  int64_t calls() const { return family_->shape().calls(); }

  // The calls of an iteration on so many samples, without those remembered and the judges.
  int64_t jacobian_cost(int64_t batch) const {
    return std::min(samples_.count(), batch) * calls_of_jacobian(family_->shape());
  }

  // A solver on the judges.
  int64_t trial_cost(int64_t batch) const {
    return std::min(samples_.count(), batch + other_judges()) * calls();
  }

  int64_t cost_before_trials(const StartState& start) const {
    const int64_t size = batch(start);
    int64_t cost = jacobian_cost(size) + trial_cost(size);
    if (start.iteration == 0) cost += 2 * calls() * size;  // answer_noise
    for (const Remembered& entry : start.direct.memory) {
      cost += calls() * static_cast<int64_t>(entry.samples.size());
    }
    return cost;
  }

  const Samples& samples_;
  FamilyPtr family_;
  const DirectOptions options_;
};

}  // namespace

std::unique_ptr<Optimiser> direct_optimiser(const Samples& samples, FamilyPtr family,
                                            const DirectOptions& options) {
  return std::make_unique<DirectOptimiser>(samples, std::move(family), options);
}

}  // namespace bespoke
