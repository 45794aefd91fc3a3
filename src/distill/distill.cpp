#include "bespoke/distill/distill.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "bespoke/base/clock.h"
#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/screen.h"
#include "bespoke/distill/starts.h"

namespace bespoke {

using namespace detail;

namespace {

// Of a start that diverges before its first iteration.
constexpr double kWorstPsnr = -1000;

// The fit alone is to take seconds.
FitSearchOptions fit_search_options(const DistillOptions& options) {
  FitSearchOptions search = options.fit;
  if (options.method == Method::fit) search.rounds = std::min(search.rounds, 1);
  return search;
}

// The loop, over the state that can be stored between any two of its iterations.
class Distillation {
 public:
  Distillation(const Objective& training, const Objective& validation,
               const DistillOptions& options, DistillState state)
      : options_(options),
        family_(options.family ? options.family : bns_family(options.nfe)),
        training_(training),
        validation_(validation),
        state_(std::move(state)),
        began_(std::chrono::steady_clock::now()),
        seconds_before_(state_.seconds) {
    if (state_.starts.empty()) {
      begin();
    } else {
      check_same_run();
    }
  }

  DistillSummary run() {
    if (state_.chosen < 0) {
      if (try_starts() == Verdict::stop) return summary(best_start(), Ending::stopped);
      state_.chosen = static_cast<int64_t>(best_start());
    }
    const auto chosen = static_cast<size_t>(state_.chosen);
    return summary(chosen, advance(chosen, iterations()));
  }

 private:
  bool adam() const { return options_.method == Method::adam; }
  int64_t iterations() const { return options_.most_iterations(); }
  int64_t validation_interval() const {
    constexpr int64_t kDirect = 1, kAdam = 100;
    if (options_.validation_interval > 0) return options_.validation_interval;
    return adam() ? kAdam : kDirect;
  }

  void begin() {
    state_.family = family_->name();
    state_.nfe = family_->nfe();
    state_.method = options_.method;
    state_.seed = options_.seed;
    for (const auto& [name, solver] : starts()) {
      StartState start;
      start.name = name;
      start.theta = start.best_theta = family_->parameters(solver);
      try {
        start.initial_psnr = start.validation_psnr = start.best_psnr = validation_psnr(start.theta);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::diverged) throw;
        start.initial_psnr = start.validation_psnr = start.best_psnr = kWorstPsnr;
        start.diverged = true;
        start.message = error.what();
      }
      state_.starts.push_back(start);
      if (options_.on_start) options_.on_start(start, state_.screening, family_->shape());
    }
  }

  std::vector<NamedSolver> starts() {
    if (!options_.starts.empty()) return options_.starts;
    if (adam() || !family_->is_bns()) {  // the published recipe starts from the plain ones
      std::vector<NamedSolver> list;
      for (const auto& name : plain_starts(*family_, *options_.field.schedule)) {
        list.push_back(resolved(name));
      }
      return list;
    }
    if (training_.trajectories() > 0) return {fitted()};
    if (options_.method == Method::fit) {
      throw bad_input("the fit needs the true trajectories of its samples, which these lack");
    }
    return {nearest()};
  }

  NamedSolver fitted() {
    const auto report = [&](double done) {
      if (options_.on_progress) options_.on_progress("fitting", done);
    };
    return search_fit(training_, *family_, *options_.field.schedule, fit_search_options(options_),
                      &state_.screening, report);
  }

  // The nearest of the catalogue on any of the automatic grids.
  NamedSolver nearest() {
    std::vector<NamedSolver> all;
    std::vector<NsSolver> solvers;
    for (const auto& grid :
         automatic_grids(family_->nfe(), *options_.field.schedule, training_.data_deviation())) {
      all.push_back(nearest_on(grid));
      solvers.push_back(all.back().solver);
    }
    return all[nearest_solver(training_, solvers, options_.fit.samples, &state_.screening,
                              nullptr)];
  }

  NamedSolver resolved(const std::string& name) const {
    return {name, resolve_solver(SolverName::parse(name), family_->nfe(), options_.field).at()};
  }

  // By a part of the training samples: enough to tell good from bad.
  NamedSolver nearest_on(const std::string& grid) {
    constexpr int64_t kSamples = 8;
    std::vector<NamedSolver> candidates;
    std::vector<NsSolver> solvers;
    for (const auto& name : start_candidates(grid, family_->nfe())) {
      candidates.push_back(resolved(name));
      solvers.push_back(candidates.back().solver);
    }
    const auto report = [&](double done) {
      if (options_.on_progress) options_.on_progress("choosing a start on " + grid, done);
    };
    return candidates[nearest_solver(training_, solvers, kSamples, &state_.screening, report)];
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

  // Iterates one start until it has done `until` iterations or ends before.
  Ending advance(size_t index, int64_t until) {
    StartState& start = state_.starts[index];
    while (true) {
      if (start.diverged) return Ending::diverged;
      if (options_.method == Method::automatic && is_stale(start)) return Ending::converged;
      if (start.iteration >= until) return Ending::iterations;
      if (beyond_budget(start)) return Ending::forwards;
      if (iterate(index) == Verdict::stop) return Ending::stopped;
    }
  }

  Verdict iterate(size_t index) {
    StartState& start = state_.starts[index];
    double loss = 0;
    bool validated = false;
    try {
      loss = advance_by_method(start);
      ++start.iteration;
      validated = start.iteration % validation_interval() == 0 || start.iteration == iterations();
      if (validated) validate(start);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      start.diverged = true;
      start.message = error.what();
    }
    state_.seconds = seconds_before_ + seconds_since(began_);
    if (!options_.on_iteration) return Verdict::go_on;
    return options_.on_iteration(
        {index, start.iteration, loss, validated, start.validation_psnr, start.best_psnr,
         state_.training, state_.validation, state_.seconds},
        state_);
  }

  // Few samples may gain nothing by chance.
  bool is_stale(const StartState& start) const {
    constexpr int64_t kSamples = 24;
    return start.stale >= options_.patience && start.stale * direct_batch() >= kSamples;
  }

  bool has_budget() const { return options_.most_forwards > 0; }
  int64_t left() const {
    return options_.most_forwards - state_.screening.forwards - state_.training.forwards;
  }

  // Whether another iteration would spend more than there is.
  bool beyond_budget(const StartState& start) const {
    if (!has_budget()) return false;
    if (adam()) return family_->nfe() * options_.adam.batch > left();
    return direct_forwards(start) + trial_forwards() > left();
  }

  // Of one run of a solver, a sample.
  int64_t calls() const { return family_->shape().calls(); }

  // Of an iteration on so many samples, without those remembered and the judges.
  int64_t jacobian_forwards(int64_t batch) const {
    const SolverShape shape = family_->shape();
    int64_t each = int64_t{2} * shape.calls();
    for (int i = 0; i < shape.nfe; ++i) {
      const auto columns = static_cast<int64_t>(shape.columns(static_cast<size_t>(i)));
      each += int64_t{2} * shape.calls_from(i) + columns * shape.calls_from(i + 1);
    }
    return std::min(training_.count(), batch) * each;
  }

  // A solver on the judges.
  int64_t trial_forwards() const {
    return std::min(training_.count(), direct_batch() + other_judges()) * calls();
  }

  // What an iteration costs at most before its first trial.
  int64_t direct_forwards(const StartState& start) const {
    int64_t forwards = jacobian_forwards(direct_batch()) + trial_forwards();
    if (start.iteration == 0) forwards += 2 * calls() * direct_batch();  // answer_noise
    for (const Remembered& entry : start.direct.memory) {
      forwards += calls() * static_cast<int64_t>(entry.samples.size());
    }
    return forwards;
  }

  double advance_by_method(StartState& start) {
    if (adam()) return adam_iteration(start);
    const int64_t count = training_.count(), batch = direct_batch();
    DirectOptions direct = options_.direct;
    if (has_budget()) {
      const int64_t trials = (left() - direct_forwards(start)) / trial_forwards();
      direct.attempts =
          static_cast<int>(std::min<int64_t>(attempts_for(direct, family_->nfe()), trials));
    }
    return direct_iteration(training_, *family_, direct, fresh_batch(start.iteration, count, batch),
                            judges_of(start.iteration, count, batch, other_judges()), start.direct,
                            start.theta, &state_.training);
  }

  int64_t other_judges() const { return judges_for(options_.direct, family_->nfe()); }

  // Small samples say little each. Where a Jacobian is dear, for what there is to spend, more
  // iterations gain more than larger ones; where samples are few, half of them at a time.
  int64_t direct_batch() const {
    constexpr double kNumbersPerParameter = 16;
    constexpr int64_t kMost = 8, kFewest = 4, kIterations = 10;
    if (options_.direct.batch > 0) return options_.direct.batch;
    const double needed = kNumbersPerParameter * static_cast<double>(family_->parameter_count()) /
                          training_.sample_size();
    const int64_t budget = options_.most_forwards - state_.screening.forwards;
    const bool dear = is_dear(family_->nfe()) || training_.count() < 2 * kMost ||
                      (has_budget() && kIterations * jacobian_forwards(kMost) > budget);
    return std::max(dear ? kFewest : kMost, static_cast<int64_t>(std::ceil(needed)));
  }

  double adam_iteration(StartState& start) {
    const auto batch =
        draw_batch(options_.seed, start.iteration, training_.count(), options_.adam.batch);
    const LossGradient at =
        training_.loss_gradient(family_->solver(start.theta), batch, &state_.training);
    const auto gradient = transposed_product(family_->jacobian(start.theta), at.gradient);
    adam_update(options_.adam, start.iteration, iterations(), gradient, start.adam, start.theta);
    return at.loss;
  }

  void validate(StartState& start) {
    start.validation_psnr = validation_psnr(start.theta);
    start.stale =
        start.validation_psnr > start.best_psnr + options_.least_gain ? 0 : start.stale + 1;
    if (start.validation_psnr > start.best_psnr) {
      start.best_psnr = start.validation_psnr;
      start.best_theta = start.theta;
    }
  }

  double validation_psnr(const std::vector<double>& theta) {
    const auto errors = validation_.log_errors(family_->solver(theta), first_samples(validation_),
                                               &state_.validation);
    return psnr_of_loss(mean(errors), options_.peak);
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
    result.solver = family_->solver(start.best_theta);
    result.start = start.name;
    result.initial_psnr = start.initial_psnr;
    result.validation_psnr = start.best_psnr;
    result.training_psnr = training_psnr(result.solver);
    result.iterations = start.iteration;
    result.screening = state_.screening;
    result.training = state_.training;
    result.validation = state_.validation;
    result.seconds = seconds_before_ + seconds_since(began_);
    result.ending = ending;
    result.message = start.message;
    return result;
  }

  const DistillOptions& options_;
  FamilyPtr family_;
  const Objective& training_;
  const Objective& validation_;
  DistillState state_;
  std::chrono::steady_clock::time_point began_;
  double seconds_before_;
};

}  // namespace

int64_t DistillOptions::most_iterations() const {
  constexpr int64_t kAuto = 16, kDirect = 6, kAdam = 15000;
  if (method == Method::fit) return 0;
  if (iterations > 0) return iterations;
  return method == Method::adam ? kAdam : method == Method::direct ? kDirect : kAuto;
}

namespace {

void check_network_calls(const DistillOptions& options) {
  guided_shapes(options.network_calls, options.nfe);
  if (options.method == Method::adam) {
    throw usage_error(
        "a solver that guides itself is found without gradients; take auto, fit or direct instead "
        "of adam");
  }
  if (options.family || !options.starts.empty()) {
    throw usage_error(
        "a solver that guides itself is a bns solver that starts from the fit; give neither a "
        "family nor starts");
  }
}

// The options of a solver that guides itself, once its shape and start are known: chosen now, or by
// the run whose state this is.
DistillOptions with_shape(const Objective& training, const Objective& validation,
                          const DistillOptions& options, DistillState& state) {
  DistillOptions own = options;
  if (state.starts.empty()) {
    if (training.trajectories() == 0) {
      throw bad_input(
          "a solver that guides itself starts from the fit, which needs the true trajectories of "
          "its samples, and these lack them");
    }
    const auto report = [&](double done) {
      if (options.on_progress) options.on_progress("choosing the guided steps", done);
    };
    // Half of a budget, since training gains more than the choice.
    const GuidedSearchOptions search = {fit_search_options(options), options.constraints,
                                        (options.most_forwards + 1) / 2};
    const GuidedFit found = search_guided_fit(training, validation, *options.field.schedule,
                                              guided_shapes(options.network_calls, options.nfe),
                                              search, &state.screening, report);
    own.family = found.family;
    own.starts = {found.start};
  } else {
    own.family =
        bns_family(guided_shapes(options.network_calls, state.nfe).front(), options.constraints);
  }
  own.nfe = own.family->nfe();
  return own;
}

}  // namespace

void DistillOptions::validate() const {
  if (network_calls != 0) {
    check_network_calls(*this);
  } else {
    check_nfe(nfe);
  }
  if (family && family->nfe() != nfe) {
    throw usage_error("the family spends {} evaluations, {} were asked for", family->nfe(), nfe);
  }
  if (method == Method::fit && (!starts.empty() || (family && !family->is_bns()))) {
    throw usage_error(
        "the fit makes bns solvers from trajectories alone; give it neither a start nor another "
        "family, or take another method");
  }
  if (starts.empty() && !field.schedule) {
    throw usage_error("automatic starts need to know the schedule of the field");
  }
  if (adam.batch < 1) {
    throw usage_error("adam's batches need at least one sample, found {}", adam.batch);
  }
  if (fit.samples < 1 || fit.rounds < 0 || !(fit.fit.smoothing >= 0)) {
    throw usage_error(
        "the fit needs at least one sample, rounds >= 0 and smoothing >= 0, found {}, {} and {}",
        fit.samples, fit.rounds, fit.fit.smoothing);
  }
  if (direct.batch < 0 || direct.remembered < 0 || direct.judges < 0 || direct.attempts < 0 ||
      !(direct.smoothing >= 0) || !(direct.damping > 0) || !(direct.difference >= 0) ||
      !(direct.time_difference >= 0 && direct.time_difference < 0.5)) {
    throw usage_error(
        "direct needs batch, remembered, judges, attempts and difference >= 0, "
        "smoothing >= 0, damping > 0 and time_difference in [0, 0.5)");
  }
  if (iterations < 0 || most_forwards < 0 || validation_interval < 0 || patience < 1) {
    throw usage_error(
        "iterations, limits and intervals must not be negative, and patience at least 1");
  }
}

std::string to_string(Ending ending) {
  switch (ending) {
    case Ending::converged:
      return "converged";
    case Ending::iterations:
      return "iterations";
    case Ending::forwards:
      return "forwards";
    case Ending::stopped:
      return "stopped";
    default:
      return "diverged";
  }
}

std::string DistillSummary::brief_report() const {
  std::string text = fmt::format(
      "{} evaluations{} reach {:.2f} dB on the validation samples ({:.2f} on the training samples) "
      "after {} iterations from {}, which had {:.2f} dB. It took {} forwards and {} "
      "vector-Jacobian products to train, {} forwards to choose starts and {} to validate, in "
      "{:.1f} s, and ended: {}.",
      solver.nfe(),
      solver.guides_itself() ? fmt::format(" ({} network calls)", solver.shape().calls()) : "",
      validation_psnr, training_psnr, iterations, start, initial_psnr, grouped(training.forwards),
      grouped(training.vjps), grouped(screening.forwards), grouped(validation.forwards), seconds,
      to_string(ending));
  if (!message.empty()) text += fmt::format(" What diverged: {}.", message);
  return text;
}

DistillSummary distill(const Objective& training, const Objective& validation,
                       const DistillOptions& options, DistillState state) {
  options.validate();
  if (options.network_calls == 0) {
    return Distillation(training, validation, options, std::move(state)).run();
  }
  const DistillOptions own = with_shape(training, validation, options, state);
  return Distillation(training, validation, own, std::move(state)).run();
}

}  // namespace bespoke
