#include "bespoke/recipe/reference_choice.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "bespoke/run/multistep.h"

namespace bespoke {

namespace {

// How many samples a choice is made on.
constexpr int64_t kTried = 2;
// How near, in decibels of the samples' own power, they are to be to exact ones. Solvers that are
// found are rarely nearer than 40.
constexpr double kExact = 50;
// The error of the adaptive method falls with the fifth power of its evaluations.
constexpr double kOrder = 5;
constexpr double kFirstTolerance = 1e-3, kFinest = 1e-5, kCoarsest = 3e-3;

double decibels_of_worst(const torch::Tensor& samples, const torch::Tensor& exact) {
  const torch::Tensor errors = (samples - exact).to(torch::kDouble).flatten(1).square().mean(1);
  const torch::Tensor powers = exact.to(torch::kDouble).flatten(1).square().mean(1);
  return -10 * std::log10((errors / powers).max().item<double>());
}

class Trial {
 public:
  Trial(const ModelPtr& model, const PairSource& source, const PairRun& run)
      : model_(model), source_(source), run_(run) {
    source_.count = std::min(source_.count, kTried);
    source_.trajectories = 0;
    source_.conditions = slice(source.conditions, 0, source_.count);
    run_.on_progress = nullptr;
  }

  int64_t count() const { return source_.count; }
  int64_t calls() const { return calls_; }

  torch::Tensor by_evaluations(int64_t evaluations) {
    source_.fixed_evaluations = evaluations;
    return drawn();
  }

  // How many evaluations a sample takes.
  double cost_of(const Tolerances& tolerances) {
    source_.fixed_evaluations = 0;
    source_.tolerances = tolerances;
    const int64_t before = calls_;
    drawn();
    return static_cast<double>(calls_ - before) / static_cast<double>(source_.count);
  }

 private:
  torch::Tensor drawn() {
    const Pairs pairs = make_pairs(model_, source_, run_);
    calls_ += pairs.evaluations.sum().item<int64_t>();
    return pairs.x1;
  }

  ModelPtr model_;
  PairSource source_;
  PairRun run_;
  int64_t calls_ = 0;
};

}  // namespace

ReferenceChoice choose_reference(const ModelPtr& model, const PairSource& source,
                                 int64_t evaluations, const PairRun& run) {
  if (evaluations <= kUsualEvaluations || source.count == 0) return {evaluations, {}, 0};
  Trial trial(model, source, run);
  const torch::Tensor once = trial.by_evaluations(evaluations);
  const torch::Tensor twice = trial.by_evaluations(2 * evaluations);
  // A sample that is not finite is no reason either way.
  if (!(decibels_of_worst(once, twice) < kExact)) return {evaluations, {}, trial.calls()};
  const double cost = trial.cost_of({kFirstTolerance, kFirstTolerance});
  const auto most = static_cast<double>(evaluations);
  if (cost > 2 * most) return {evaluations, {}, trial.calls()};
  const double tolerance =
      std::clamp(kFirstTolerance * std::pow(cost / most, kOrder), kFinest, kCoarsest);
  return {0, {tolerance, tolerance}, trial.calls()};
}

}  // namespace bespoke
