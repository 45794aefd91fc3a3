#include "bespoke/distill/call_plan.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/run/multistep.h"
#include "bespoke/run/reference.h"

namespace bespoke {

using namespace detail;

namespace {

// Runs of the solver without which there is nothing: a fit, which measures itself on the samples it
// is fitted to; where others are held out, measurements on all of them too.
constexpr int64_t kFit = 1, kFitAndMeasurement = 2;
// What a sample is reckoned to cost beyond its reference. Another sample gains more than other
// times: from one sample on one range to two, 1.3 dB.
constexpr int64_t kUsualRuns = 2;
// Where calls are many, a part of them makes samples more exact: what the usual evaluations draw of
// a model that is rough in t, or clips, may be further from the truth than a solver found by them.
constexpr int64_t kReferencePart = 6, kFineEvaluations = 120;
// Below so many samples' cost those held out would tell less than the fits they would take the
// place of.
constexpr double kWorthHoldingOut = 60;

int64_t least_calls(const CallBudget& budget, int64_t samples, int64_t evaluations) {
  const int64_t drawn = samples + (budget.holds_out ? 1 : 0);
  const int64_t runs = budget.holds_out ? kFitAndMeasurement : kFit;
  return drawn * (evaluations * budget.evaluation + runs * budget.run);
}

}  // namespace

CallPlan plan_calls(const CallBudget& budget) {
  const int64_t fewest = std::max<int64_t>(1, budget.samples);
  const int64_t needed = least_calls(budget, fewest, kFewestEvaluations);
  if (budget.calls < needed) {
    throw usage_error(
        "{} calls do not suffice to learn from {} sample{} of the model; give at least {}",
        grouped(budget.calls), fewest, fewest == 1 ? "" : "s", grouped(needed));
  }
  const int64_t each = kUsualEvaluations * budget.evaluation + kUsualRuns * budget.run;
  const double units = static_cast<double>(budget.calls) / static_cast<double>(each);
  CallPlan plan;
  // In proportion at first; what many samples tell grows more slowly than what they cost.
  plan.samples =
      budget.samples > 0
          ? budget.samples
          : std::max<int64_t>(1, static_cast<int64_t>(std::min(units, 2 * std::sqrt(units))));
  if (budget.holds_out || units >= kWorthHoldingOut) {
    plan.held_out = std::max<int64_t>(1, plan.samples / 2);
  }
  const int64_t drawn = plan.samples + plan.held_out;
  const int64_t runs = plan.held_out > 0 ? kFitAndMeasurement : kFit;
  const int64_t left = budget.calls - runs * drawn * budget.run;
  const int64_t all = drawn * budget.evaluation;
  const int64_t more = std::min(kFineEvaluations, budget.calls / kReferencePart / all);
  plan.evaluations = std::clamp(left / all, kFewestEvaluations, std::max(kUsualEvaluations, more));
  return plan;
}

}  // namespace bespoke
