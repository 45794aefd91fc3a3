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
constexpr double kFirstTolerance = 1e-3, kFinest = 1e-5;
// So many times the evaluations asked for are too many: a field that jumps asks for any number.
constexpr double kDearest = 4;
// How much nearer, in decibels, twice as many even steps must come to those that follow errors.
constexpr double kClearly = 3;

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

  torch::Tensor to_tolerances(const Tolerances& tolerances) {
    source_.fixed_evaluations = 0;
    source_.tolerances = tolerances;
    return drawn();
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

int64_t ReferenceChoice::affordable(int64_t planned) const {
  const auto whole = static_cast<int64_t>(share * static_cast<double>(planned));
  return std::clamp<int64_t>(whole, std::min<int64_t>(1, planned), planned);
}

ReferenceChoice choose_reference(const ModelPtr& model, const PairSource& source,
                                 int64_t evaluations, const PairRun& run) {
  if (evaluations <= kUsualEvaluations || source.count == 0) return {evaluations, {}, 0};
  Trial trial(model, source, run);
  const torch::Tensor once = trial.by_evaluations(evaluations);
  const torch::Tensor twice = trial.by_evaluations(2 * evaluations);
  // A sample that is not finite is no reason either way.
  if (!(decibels_of_worst(once, twice) < kExact)) return {evaluations, {}, trial.calls()};
  const int64_t before = trial.calls();
  const torch::Tensor followed = trial.to_tolerances({kFirstTolerance, kFirstTolerance});
  const double cost =
      static_cast<double>(trial.calls() - before) / static_cast<double>(trial.count());
  // Steps that follow errors overlook what is over between two of them, and then twice as many even
  // ones come no nearer to them.
  const bool agree =
      decibels_of_worst(twice, followed) > decibels_of_worst(once, followed) + kClearly;
  const auto most = static_cast<double>(evaluations);
  if (!agree || cost > kDearest * most) return {evaluations, {}, trial.calls()};
  // Nothing can be learnt from samples that are further off than the solver that is looked for, so
  // fewer are drawn where they cost more.
  if (cost > most) return {0, {kFirstTolerance, kFirstTolerance}, trial.calls(), most / cost};
  const double tolerance = std::max(kFirstTolerance * std::pow(cost / most, kOrder), kFinest);
  return {0, {tolerance, tolerance}, trial.calls()};
}

}  // namespace bespoke
