#include "bespoke/distill/distill.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "bespoke/base/clock.h"
#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/translation.h"
#include "budget.h"
#include "chosen_starts.h"
#include "optimiser.h"
#include "patience.h"

namespace bespoke {

using namespace detail;

namespace {

// The PSNR that stands for a start which diverges before its first iteration.
constexpr double kWorstPsnr = -1000;

// The loop, over the state that can be stored between any two of its iterations.
class Distillation {
 public:
  Distillation(const Samples& training, const Samples& validation, const LossGradients* gradients,
               const DistillOptions& options, DistillState state)
      : options_(options),
        family_(options.family ? options.family : bns_family(options.nfe)),
        training_(training),
        validation_(validation),
        budget_(options.most_calls, options.reference_forwards),
        patience_({options.patience, options.least_gain}),
        state_(std::move(state)),
        began_(std::chrono::steady_clock::now()),
        seconds_before_(state_.seconds) {
    // First of all, so that features that do not fit are told before calls are spent.
    if (options_.match.has_statistics(family_->nfe())) {
      matching_ = std::make_unique<Matching>(
          options_.match.samples != nullptr ? *options_.match.samples : training_, family_,
          options_.match);
    }
    if (state_.starts.empty()) {
      begin();
    } else {
      check_same_run();
    }
    optimiser_ = make_optimiser(gradients);
  }

  DistillSummary run() {
    if (state_.chosen < 0) {
      if (try_starts() == Verdict::stop) return summary(best_found(), Ending::stopped);
      state_.chosen = static_cast<int64_t>(best_start());
    }
    if (!state_.match) {
      const Ending ending = advance_while_calls_are_left();
      const bool broke_off = ending == Ending::stopped || ending == Ending::diverged;
      if (broke_off || !matching_) return summary(best_found(), ending);
      begin_matching(state_.starts[best_found()]);
    }
    return summary(best_found(), match_statistics(best_found()));
  }

 private:
  int64_t iterations() const { return options_.most_iterations(); }
  int64_t validation_interval() const {
    return options_.validation_interval > 0 ? options_.validation_interval
                                            : optimiser_->validation_interval();
  }

  std::unique_ptr<Optimiser> make_optimiser(const LossGradients* gradients) const {
    if (options_.method != Method::adam) {
      return direct_optimiser(training_, family_, options_.direct);
    }
    if (gradients == nullptr) {
      throw usage_error(
          "adam needs gradients of the model, and there are none here; take auto, fit or direct");
    }
    return adam_optimiser(*gradients, family_, options_.adam, training_.count(), options_.seed,
                          iterations());
  }

  void begin() {
    state_.family = family_->name();
    state_.nfe = family_->nfe();
    state_.method = options_.method;
    state_.seed = options_.seed;
    const size_t finalists = affordable_finalists();
    for (const ChosenStart& chosen : chosen_starts(
             training_, *family_, with_limited_fits(finalists), finalists, &state_.screening)) {
      StartState start;
      start.name = chosen.name;
      start.theta = start.best_theta = family_->parameters(chosen.solver);
      try {
        const Measurement measured = measure_start(chosen, start.theta);
        start.initial_psnr = start.validation_psnr = start.best_psnr = measured.psnr;
        start.best_error = measured.error;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::diverged) throw;
        start.initial_psnr = start.validation_psnr = start.best_psnr = kWorstPsnr;
        start.diverged = true;
        start.message = error.what();
      }
      state_.starts.push_back(start);
    }
    const bool are_fits =
        options_.starts.empty() && options_.method != Method::adam && family_->is_bns();
    if (are_fits) put_best_first();
    for (const StartState& start : state_.starts) {
      const bool goes_on = !are_fits || &start == &state_.starts.front();
      if (goes_on && options_.on_start) {
        options_.on_start(start, state_.screening, family_->shape());
      }
    }
  }

  // Fits are told apart by their measurement already.
  void put_best_first() {
    const auto better = [](const StartState& left, const StartState& right) {
      return left.best_psnr > right.best_psnr;
    };
    std::stable_sort(state_.starts.begin(), state_.starts.end(), better);
    state_.chosen = 0;
  }

  // How many of the best fits are measured to choose one: the best on few samples may owe that to
  // one of them. Of a budget the choice takes a tenth at most.
  size_t affordable_finalists() const {
    constexpr int64_t kMost = 4, kPart = 10;
    if (!holds_out()) return 1;
    const std::optional<int64_t> left = left_for_iteration();
    if (!left) return kMost;
    return static_cast<size_t>(std::clamp<int64_t>(*left / kPart / measuring_calls(), 1, kMost));
  }

  int64_t measuring_calls() const { return family_->shape().calls() * validation_.count(); }

  // Whether a fit says what it misses all samples by that there are to measure on.
  bool measures_itself() const {
    return !holds_out() && training_.is_linear() && training_.trajectories() >= training_.count();
  }

  // Fits get what measurements leave, or a part of it where iterations are to follow, which gain
  // more once the likely times were tried.
  DistillOptions with_limited_fits(size_t finalists) const {
    constexpr int64_t kPart = 8, kLikely = 3, kFew = 12;
    DistillOptions limited = options_;
    // Samples that a fit leaves out would have to be measured on, for as much as it costs.
    if (!holds_out()) limited.fit.samples = std::max(limited.fit.samples, training_.trajectories());
    std::optional<int64_t> left = left_for_iteration();
    if (!left) return limited;
    if (finalists > 1) *left -= static_cast<int64_t>(finalists) * measuring_calls();
    if (measures_itself()) *left += measuring_calls();
    const int64_t iteration =
        direct_optimiser(training_, family_, options_.direct)->least_cost(StartState()) +
        measuring_calls();
    const int64_t one =
        family_->shape().calls() * std::min(limited.fit.samples, training_.trajectories());
    const bool iterates = options_.method != Method::fit && one + iteration <= *left;
    const int64_t share =
        iterates ? std::clamp(std::max(*left / kPart, kLikely * one), one, *left - iteration)
                 : *left;
    limited.fit.most_calls = std::max<int64_t>(1, share);
    // With calls for more, moved ranges get anywhere from any of them.
    limited.fit.begins_with_likely_ranges |= share < kFew * one;
    return limited;
  }

  void check_measurement() const {
    const std::optional<int64_t> left = budget_.left(state_, measuring_calls() + closing_calls());
    if (!left || *left >= 0) return;
    throw usage_error("{} calls do not suffice to measure a start on {} samples; give {} more",
                      grouped(options_.most_calls), validation_.count(), grouped(-*left));
  }

  void check_same_run() const {
    const bool same_starts =
        options_.starts.empty() || state_.starts.size() == options_.starts.size();
    if (state_.family == family_->name() && state_.nfe == family_->nfe() &&
        state_.method == options_.method && state_.seed == options_.seed && same_starts &&
        fits_family()) {
      return;
    }
    throw bad_input(
        "the stored state is of another distillation ({} with {} evaluations by {}, seed {}, {} "
        "starts); go on with the same options or begin anew",
        state_.family, state_.nfe, to_string(state_.method), state_.seed, state_.starts.size());
  }

  bool fits_family() const {
    if (state_.match && state_.match->theta.size() != family_->parameter_count()) return false;
    return std::all_of(state_.starts.begin(), state_.starts.end(), [&](const StartState& start) {
      const auto& memory = start.direct.memory;
      return start.theta.size() == family_->parameter_count() &&
             std::all_of(memory.begin(), memory.end(),
                         [&](const Remembered& entry) { return fits_family(entry); });
    });
  }

  bool fits_family(const Remembered& entry) const {
    return entry.theta.size() == family_->parameter_count() && !entry.samples.empty() &&
           std::all_of(entry.samples.begin(), entry.samples.end(),
                       [&](int64_t k) { return k >= 0 && k < training_.count(); });
  }

  // Each start gets to its first measurement. One that diverged keeps its place, so that a run that
  // was stopped finds the same ones again.
  Verdict try_starts() {
    if (state_.starts.size() == 1) return Verdict::go_on;
    for (size_t k = 0; k < state_.starts.size(); ++k) {
      const int64_t until = std::min(validation_interval(), iterations());
      if (advance(k, until) == Ending::stopped) return Verdict::stop;
    }
    return Verdict::go_on;
  }

  // The chosen start until it gains nothing more, and then the other fits, best first, while calls
  // are left to spend: each may end in a valley of its own.
  Ending advance_while_calls_are_left() {
    while (true) {
      const Ending ending = advance(static_cast<size_t>(state_.chosen), iterations());
      const std::optional<size_t> other = untried_start();
      if (ending != Ending::converged || !budget_.is_limited() || !other) return ending;
      state_.chosen = static_cast<int64_t>(*other);
    }
  }

  // The best of the fits that was not iterated yet and can be.
  std::optional<size_t> untried_start() const {
    for (size_t k = 0; k < state_.starts.size(); ++k) {
      const StartState& start = state_.starts[k];
      if (start.iteration == 0 && !start.diverged && can_afford(start)) return k;
    }
    return {};
  }

  // Iterates one start until it has done `until` iterations or ends before.
  Ending advance(size_t index, int64_t until) {
    StartState& start = state_.starts[index];
    while (true) {
      if (start.diverged) return Ending::diverged;
      if (options_.method == Method::automatic &&
          patience_.is_over(start, optimiser_->batch(start))) {
        return Ending::converged;
      }
      if (start.iteration >= until) return Ending::iterations;
      if (!can_afford(start)) return Ending::calls;
      if (iterate(index) == Verdict::stop) return Ending::stopped;
    }
  }

  Verdict iterate(size_t index) {
    StartState& start = state_.starts[index];
    double loss = 0;
    bool validated = false;
    try {
      loss = optimiser_->iterate(start, left_for_iteration(), &state_.training);
      ++start.iteration;
      validated = start.iteration % validation_interval() == 0 || start.iteration == iterations();
      if (validated) {
        const Measurement measured = measure(start.theta);
        patience_.take(start, measured.psnr, measured.error);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      start.diverged = true;
      start.message = error.what();
    }
    return report(index, loss, validated, start.validation_psnr);
  }

  void begin_matching(const StartState& start) {
    state_.match.emplace();
    state_.match->theta = start.best_theta;
    state_.match->first_psnr = state_.match->psnr = start.best_psnr;
    state_.match->psnr_error = start.best_error;
  }

  Ending match_statistics(size_t index) {
    MatchState& match = *state_.match;
    while (true) {
      if (match.is_over) return Ending::converged;
      if (match.iteration >= most_match_iterations(options_.match, family_->nfe())) {
        return Ending::iterations;
      }
      const std::optional<int64_t> left = left_for_iteration();
      if (left && matching_->least_cost() > *left) return Ending::calls;
      double objective = 0;
      try {
        objective = matching_->iterate(match, &state_.training);
        const Measurement measured = measure(match.theta);
        match.psnr = measured.psnr;
        match.psnr_error = measured.error;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::diverged) throw;
        state_.starts[index].message = error.what();
        return Ending::diverged;
      }
      if (report(index, objective, true, match.psnr) == Verdict::stop) return Ending::stopped;
    }
  }

  // Tells of the iteration just done.
  Verdict report(size_t index, double loss, bool validated, double psnr) {
    state_.seconds = seconds_before_ + seconds_since(began_);
    if (!options_.on_iteration) return Verdict::go_on;
    return options_.on_iteration(
        {index, state_.iterations_of(index), loss, validated, psnr, state_.starts[index].best_psnr,
         state_.training, state_.validation, state_.seconds},
        state_);
  }

  bool holds_out() const { return &validation_ != &training_; }

  // The calls of the measurement at the end.
  int64_t closing_calls() const {
    return holds_out() ? family_->shape().calls() * training_.count() : 0;
  }

  // The measurement after the iteration and that of the end are still to come.
  std::optional<int64_t> left_for_iteration() const {
    return budget_.left(state_, measuring_calls() + closing_calls() + matching_calls());
  }

  // Half of what samples leave is kept for the matching of statistics, until that begins.
  int64_t matching_calls() const {
    if (state_.match || !options_.match.has_statistics(family_->nfe())) return 0;
    return std::max<int64_t>(0, options_.most_calls - options_.reference_forwards) / 2;
  }

  bool can_afford(const StartState& start) const {
    const std::optional<int64_t> left = left_for_iteration();
    return !left || optimiser_->least_cost(start) <= *left;
  }

  // What was measured on the validation samples.
  struct Measurement {
    double psnr, error;
  };
  Measurement measure(const std::vector<double>& theta) {
    return measurement(validation_.log_errors(family_->solver(theta), first_samples(validation_),
                                              &state_.validation));
  }
  Measurement measurement(const std::vector<double>& log_errors) const {
    return {psnr_of_loss(mean(log_errors), options_.peak), psnr_error(log_errors)};
  }

  // A fit on all samples that there are measured itself.
  Measurement measure_start(const ChosenStart& start, const std::vector<double>& theta) {
    if (measures_itself() && !start.log_errors.empty()) return measurement(start.log_errors);
    check_measurement();
    return measure(theta);
  }

  // Reported, not part of the search: counted with the validation.
  double training_psnr(const NsSolver& solver) {
    try {
      const auto errors =
          training_.log_errors(solver, first_samples(training_), &state_.validation);
      return psnr_of_loss(mean(errors), options_.peak);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      return std::numeric_limits<double>::quiet_NaN();
    }
  }

  // The one whose best solver is the best, also where it diverged later.
  size_t best_found() const {
    const auto worse = [](const StartState& left, const StartState& right) {
      return left.best_psnr < right.best_psnr;
    };
    return static_cast<size_t>(std::max_element(state_.starts.begin(), state_.starts.end(), worse) -
                               state_.starts.begin());
  }

  // One that diverged cannot go on, and is chosen only where all did.
  size_t best_start() const {
    const auto worse = [](const StartState& left, const StartState& right) {
      if (left.diverged != right.diverged) return left.diverged;
      return left.best_psnr < right.best_psnr;
    };
    return static_cast<size_t>(std::max_element(state_.starts.begin(), state_.starts.end(), worse) -
                               state_.starts.begin());
  }

  DistillSummary summary(size_t index, Ending ending) {
    const StartState& start = state_.starts[index];
    DistillSummary result;
    result.solver = family_->solver(state_.match ? state_.match->theta : start.best_theta);
    result.start = start.name;
    result.initial_psnr = start.initial_psnr;
    result.validation_psnr = state_.match ? state_.match->psnr : start.best_psnr;
    result.validation_error = state_.match ? state_.match->psnr_error : start.best_error;
    result.training_psnr = holds_out() ? training_psnr(result.solver) : result.validation_psnr;
    result.iterations = state_.iterations_of(index);
    result.match = state_.match;
    result.reference_forwards = options_.reference_forwards;
    result.held_out = holds_out() ? validation_.count() : 0;
    result.screening = state_.screening;
    result.training = state_.training;
    result.validation = state_.validation;
    result.seconds = seconds_before_ + seconds_since(began_);
    result.ending = ending;
    result.message = start.message;
    return result;
  }

  const DistillOptions options_;
  FamilyPtr family_;
  const Samples& training_;
  const Samples& validation_;
  Budget budget_;
  Patience patience_;
  DistillState state_;
  std::unique_ptr<Optimiser> optimiser_;
  std::unique_ptr<Matching> matching_;  // of statistics, where they are matched
  std::chrono::steady_clock::time_point began_;
  double seconds_before_;
};

// The options of a solver with built-in guidance, once its shape and start are known: chosen now,
// or by the run whose state this is.
DistillOptions with_shape(const Samples& training, const Samples& validation,
                          const DistillOptions& options, DistillState& state) {
  DistillOptions completed = options;
  if (state.starts.empty()) {
    if (training.trajectories() == 0) {
      throw bad_input(
          "a solver with built-in guidance starts from the fit, which needs the true trajectories "
          "of "
          "its samples, and these lack them");
    }
    const auto report = [&](double done) {
      if (options.on_progress) options.on_progress("choosing the guided steps", done);
    };
    // Half of what there is, since training gains more than the choice.
    const Budget budget(options.most_calls, options.reference_forwards);
    const int64_t measuring = options.network_calls * (training.count() + validation.count());
    const std::optional<int64_t> left = budget.left(state, measuring);
    const GuidedSearchOptions search = {fit_search_options(options), options.constraints,
                                        left ? std::max<int64_t>(1, *left / 2) : 0};
    const GuidedFit fit = search_guided_fit(training, validation, *options.field.schedule,
                                            guided_shapes(options.network_calls, options.nfe),
                                            search, &state.screening, report);
    completed.family = fit.family;
    completed.starts = {fit.start};
  } else {
    completed.family =
        bns_family(guided_shapes(options.network_calls, state.nfe).front(), options.constraints);
  }
  completed.nfe = completed.family->nfe();
  return completed;
}

// The options where solvers are told in other coordinates than the model's own.
DistillOptions in_coordinates(const CoordinatesPtr& coordinates, DistillOptions options) {
  options.field.schedule = coordinates->canonical;
  options.constraints.coordinates = coordinates;
  if (!options.family) options.family = bns_family(options.nfe);
  options.family = options.family->in_coordinates(coordinates);
  for (NamedSolver& start : options.starts) start.solver = to_canonical(start.solver, *coordinates);
  return options;
}

}  // namespace

DistillSummary distill(const Samples& training, const Samples& validation,
                       const DistillOptions& options, DistillState state,
                       const LossGradients* gradients) {
  options.validate();
  const CoordinatesPtr& coordinates = training.coordinates();
  DistillOptions translated = coordinates ? in_coordinates(coordinates, options) : options;
  if (options.network_calls != 0) translated = with_shape(training, validation, translated, state);
  DistillSummary summary =
      Distillation(training, validation, gradients, translated, std::move(state)).run();
  if (coordinates) summary.solver = translated.family->in_own_coordinates(summary.solver);
  return summary;
}

}  // namespace bespoke
