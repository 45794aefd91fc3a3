#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/sample/reference.h"
#include "bespoke/tensor/combine.h"

namespace bespoke {

namespace {

constexpr size_t kStages = 7;

// Dormand and Prince 1980. The last stage is the new state, so its slope is the next step's first.
constexpr double kNodes[kStages] = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1};
constexpr double kStageWeights[kStages][kStages - 1] = {
    {},
    {1. / 5},
    {3. / 40, 9. / 40},
    {44. / 45, -56. / 15, 32. / 9},
    {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
    {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
    {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}};
// Difference between the fifth- and the embedded fourth-order weights.
constexpr double kErrorWeights[kStages] = {71. / 57600,      0,         -71. / 16695, 71. / 1920,
                                           -17253. / 339200, 22. / 525, -1. / 40};

// A step may grow by 3, not the customary 10: where the estimate happens to pass through zero, a
// tenfold step misses the tolerance widely, and growing slower costs no evaluations.
constexpr double kSafety = 0.9, kLeastFactor = 0.2, kMostFactor = 3;
constexpr double kErrorExponent = -1. / 5;

using Values = std::vector<double>;

torch::Tensor as_times(const Values& values) { return torch::tensor(values, torch::kDouble); }

// The samples still on their way. All vectors and tensors have one entry per active sample.
struct Active {
  torch::Tensor index;  // position in the whole batch
  torch::Tensor x, slope;
  Conditions conditions;
  Values t, h;
  std::vector<bool> rejected;  // the previous attempt failed: do not grow the next
  std::vector<int64_t> evaluations;

  size_t count() const { return t.size(); }
};

class AdaptiveRun {
 public:
  AdaptiveRun(const Field& field, const ReferenceOptions& options)
      : field_(field), options_(options), tolerances_(options.tolerances) {}

  ReferenceResult run(const torch::Tensor& x0, const Conditions& conditions) {
    const int64_t batch = x0.size(0);
    ReferenceResult result = {torch::empty_like(x0, torch::kDouble),
                              torch::zeros({batch}, torch::kLong)};
    Active active = begin(x0, conditions);
    while (active.count() > 0) {
      attempt(active);
      retire(active, result);
      report(active, batch);
    }
    return result;
  }

 private:
  Active begin(const torch::Tensor& x0, const Conditions& conditions) {
    const auto count = static_cast<size_t>(x0.size(0));
    Active active;
    active.index = torch::arange(x0.size(0), torch::kLong);
    active.x = x0.to(torch::kDouble).clone().contiguous();
    active.conditions = conditions;
    active.t.assign(count, options_.start);
    active.rejected.assign(count, false);
    active.evaluations.assign(count, 0);
    if (count == 0) return active;
    active.slope = evaluate(active, active.x, active.t);
    active.h = first_steps(active);
    return active;
  }

  torch::Tensor evaluate(Active& active, const torch::Tensor& x, const Values& t) {
    for (auto& spent : active.evaluations) ++spent;
    return field_.velocity(x, as_times(t), active.conditions).to(torch::kDouble).contiguous();
  }

  Values norms(const std::vector<torch::Tensor>& terms, const std::vector<Values>& coefficients,
               const torch::Tensor& left, const torch::Tensor& right) const {
    return scaled_norms(terms, coefficients, left, right, tolerances_.rtol, tolerances_.atol);
  }

  // Hairer, Norsett and Wanner's starting step, from the sizes of x, u and a difference of u.
  Values first_steps(Active& active) {
    const size_t count = active.count();
    const double span = options_.end - options_.start;
    const Values ones(count, 1.0), minus(count, -1.0);
    const Values size_x = norms({active.x}, {ones}, active.x, active.x);
    const Values size_u = norms({active.slope}, {ones}, active.x, active.x);
    Values trial(count), times(count);
    for (size_t k = 0; k < count; ++k) {
      const bool tiny = size_x[k] < 1e-5 || size_u[k] < 1e-5;
      trial[k] = std::min(span, tiny ? 1e-6 : 0.01 * size_x[k] / size_u[k]);
      times[k] = active.t[k] + trial[k];
    }
    torch::Tensor x = torch::empty_like(active.x);
    combine_per_sample(x, {active.x, active.slope}, {ones, trial});
    const torch::Tensor slope = evaluate(active, x, times);
    const Values change = norms({slope, active.slope}, {ones, minus}, active.x, active.x);
    Values steps(count);
    for (size_t k = 0; k < count; ++k) {
      const double largest = std::max(size_u[k], change[k] / trial[k]);
      const double step =
          largest <= 1e-15 ? std::max(1e-6, trial[k] * 1e-3) : std::pow(0.01 / largest, 0.2);
      steps[k] = std::min({100 * trial[k], step, span});
    }
    return steps;
  }

  // One attempted step of every active sample.
  void attempt(Active& active) {
    const size_t count = active.count();
    for (size_t k = 0; k < count; ++k) {
      const double left = options_.end - active.t[k];
      // A last step a hair short of the end would leave a sliver that costs a whole step.
      if (active.h[k] > left * (1 - 1e-10)) active.h[k] = left;
    }
    std::vector<torch::Tensor> slopes = {active.slope};
    torch::Tensor x;
    for (size_t stage = 1; stage < kStages; ++stage) {
      x = stage_state(active, slopes, stage);
      slopes.push_back(evaluate(active, x, stage_times(active, stage)));
    }
    decide(active, x, slopes);
  }

  torch::Tensor stage_state(const Active& active, const std::vector<torch::Tensor>& slopes,
                            size_t stage) const {
    std::vector<torch::Tensor> terms = {active.x};
    std::vector<Values> coefficients = {Values(active.count(), 1.0)};
    for (size_t j = 0; j < stage; ++j) {
      if (kStageWeights[stage][j] == 0) continue;
      terms.push_back(slopes[j]);
      coefficients.push_back(scaled_steps(active, kStageWeights[stage][j]));
    }
    torch::Tensor x = torch::empty_like(active.x);
    combine_per_sample(x, terms, coefficients);
    return x;
  }

  static Values scaled_steps(const Active& active, double factor) {
    Values values = active.h;
    for (double& value : values) value *= factor;
    return values;
  }

  Values stage_times(const Active& active, size_t stage) const {
    Values times(active.count());
    for (size_t k = 0; k < times.size(); ++k) {
      times[k] = std::min(options_.end, active.t[k] + kNodes[stage] * active.h[k]);
    }
    return times;
  }

  // Accepts or rejects each sample's step and sets its next one.
  void decide(Active& active, const torch::Tensor& x, const std::vector<torch::Tensor>& slopes) {
    std::vector<Values> coefficients;
    for (const double weight : kErrorWeights) coefficients.push_back(scaled_steps(active, weight));
    const Values errors = norms(slopes, coefficients, active.x, x);
    torch::Tensor accept = torch::zeros({x.size(0)}, torch::kBool);
    for (size_t k = 0; k < active.count(); ++k) {
      const bool good = errors[k] <= 1;
      accept.data_ptr<bool>()[k] = good;
      if (good) active.t[k] = next_time(active, k);
      active.h[k] *= step_factor(errors[k], good, active.rejected[k]);
      active.rejected[k] = !good;
      check(active, k);
    }
    const auto mask = per_sample(accept.to(x.device()), x.dim());
    active.x = torch::where(mask, x, active.x);
    active.slope = torch::where(mask, slopes.back(), active.slope);
  }

  double next_time(const Active& active, size_t k) const {
    const double left = options_.end - active.t[k];
    return active.h[k] >= left ? options_.end : active.t[k] + active.h[k];
  }

  static double step_factor(double error, bool accepted, bool after_rejection) {
    if (!std::isfinite(error)) return kLeastFactor;
    double factor = error == 0 ? kMostFactor : kSafety * std::pow(error, kErrorExponent);
    factor = std::min(kMostFactor, std::max(kLeastFactor, factor));
    return !accepted || after_rejection ? std::min(1.0, factor) : factor;
  }

  void check(const Active& active, size_t k) const {
    const double span = options_.end - options_.start;
    if (active.t[k] >= options_.end) return;
    const bool stuck = active.h[k] < 1e-14 * span;
    if (!stuck && active.evaluations[k] < options_.most_evaluations) return;
    throw Error(ErrorKind::diverged,
                fmt::format("the reference cannot meet tolerance {:g} at t = {} for sample {} "
                            "after {} "
                            "evaluations; loosen the tolerance or check the model for NaN there",
                            tolerances_.rtol, active.t[k],
                            options_.first_sample + active.index.data_ptr<int64_t>()[k],
                            active.evaluations[k]));
  }

  // Moves samples that have arrived out of the active set.
  void retire(Active& active, ReferenceResult& result) const {
    std::vector<int64_t> going, staying;
    for (size_t k = 0; k < active.count(); ++k) {
      (active.t[k] >= options_.end ? going : staying).push_back(static_cast<int64_t>(k));
    }
    if (going.empty()) return;
    const auto out = torch::tensor(going, torch::kLong);
    const auto target = active.index.index_select(0, out);
    result.x.index_copy_(0, target.to(result.x.device()),
                         active.x.index_select(0, out.to(active.x.device())));
    for (const int64_t k : going) {
      result.evaluations.data_ptr<int64_t>()[active.index.data_ptr<int64_t>()[k]] =
          active.evaluations[static_cast<size_t>(k)];
    }
    keep(active, staying);
  }

  static void keep(Active& active, const std::vector<int64_t>& staying) {
    Active next;
    const auto index = torch::tensor(staying, torch::kLong);
    const auto on_device = index.to(active.x.device());
    next.index = active.index.index_select(0, index);
    next.x = active.x.index_select(0, on_device);
    next.slope = active.slope.index_select(0, on_device);
    next.conditions = select(active.conditions, index);
    for (const int64_t position : staying) {
      const auto k = static_cast<size_t>(position);
      next.t.push_back(active.t[k]);
      next.h.push_back(active.h[k]);
      next.rejected.push_back(active.rejected[k]);
      next.evaluations.push_back(active.evaluations[k]);
    }
    active = std::move(next);
  }

  void report(const Active& active, int64_t batch) const {
    if (!options_.on_progress) return;
    double done = static_cast<double>(batch) - static_cast<double>(active.count());
    for (const double t : active.t) {
      done += (t - options_.start) / (options_.end - options_.start);
    }
    options_.on_progress(done / static_cast<double>(batch));
  }

  const Field& field_;
  const ReferenceOptions& options_;
  Tolerances tolerances_;
};

}  // namespace

ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options) {
  if (!(options.tolerances.rtol > 0 && options.tolerances.atol > 0)) {
    throw usage_error("tolerances must be positive, found rtol = {}, atol = {}",
                      options.tolerances.rtol, options.tolerances.atol);
  }
  const torch::NoGradGuard no_grad;
  return AdaptiveRun(field, options).run(x0, conditions);
}

}  // namespace bespoke
