#include "bespoke/distill/distill.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "bespoke/base/clock.h"
#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/screen.h"
#include "bespoke/distill/starts.h"
#include "bespoke/solver/grid.h"

namespace bespoke {

using namespace detail;

namespace {

// Of a start that diverges before its first iteration.
constexpr double kWorstPsnr = -1000;

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
    const Ending ending = advance(chosen, iterations());
    const bool ended_well = ending != Ending::stopped && ending != Ending::diverged;
    if (options_.method == Method::direct && ended_well) polish(chosen);
    return summary(chosen, ending);
  }

 private:
  bool adam() const { return options_.method == Method::adam; }
  bool lm() const { return options_.method == Method::levenberg_marquardt; }
  int64_t iterations() const { return options_.most_iterations(); }
  int64_t validation_interval() const {
    constexpr int64_t kDirect = 1, kLm = 3, kAdam = 100;
    if (options_.validation_interval > 0) return options_.validation_interval;
    return adam() ? kAdam : lm() ? kLm : kDirect;
  }

  int patience() const {
    constexpr int kDirect = 2, kLm = 4;
    return options_.patience > 0 ? options_.patience : lm() ? kLm : kDirect;
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
    }
  }

  std::vector<NamedSolver> starts() {
    std::vector<NamedSolver> list = options_.starts;
    if (!list.empty()) return list;
    const SchedulePtr& schedule = options_.field.schedule;
    const bool any = family_->name() == "bns";
    if (any && !adam() && !lm()) {
      if (training_.trajectories() > 0) return {fitted()};
      if (options_.method == Method::fit) {
        throw bad_input("the fit needs the true trajectories of its samples, which these lack");
      }
      return {nearest()};
    }
    if (adam() || !any) {  // the published recipe starts from the plain ones
      for (const auto& name : plain_starts(*family_, *schedule)) list.push_back(resolved(name));
    } else {
      for (const auto& grid :
           automatic_grids(family_->nfe(), *schedule, training_.data_deviation()))
        list.push_back(nearest_on(grid));
    }
    if (any && options_.neighbour) {
      const NsSolver& fewer = *options_.neighbour;
      list.push_back({fmt::format("{} NFE, padded", fewer.nfe()), pad(fewer, family_->nfe())});
    }
    return list;
  }

  // The best fit on any of the automatic grids. One on which the solver diverges is passed over.
  NamedSolver fitted() {
    const auto samples =
        first_samples(training_, std::min(options_.fit_samples, training_.trajectories()));
    NamedSolver best;
    double least = std::numeric_limits<double>::infinity();
    std::string problem = "no fit has a finite error";
    for (const auto& grid :
         automatic_grids(family_->nfe(), *options_.field.schedule, training_.data_deviation())) {
      try {
        const auto times = representable(make_grid(grid, family_->nfe(), *options_.field.schedule));
        const FittedSolver fitted =
            fit_solver(training_, samples, times, options_.fit, &state_.screening);
        if (!(fitted.loss < least)) continue;
        least = fitted.loss;
        best = {"fit/" + grid, fitted.solver};
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::diverged) throw;
        problem = error.what();
      }
    }
    if (best.name.empty()) throw Error(ErrorKind::diverged, problem);
    return best;
  }

  // Times as the family has them: a fit to others would not be one to where it is evaluated.
  std::vector<double> representable(const std::vector<double>& times) const {
    NsSolver solver;
    solver.times = times;
    solver.a.assign(times.size() - 1, 0);
    for (size_t i = 0; i + 1 < times.size(); ++i) solver.b.emplace_back(i + 1, 0.0);
    return family_->solver(family_->parameters(solver)).times;
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
    return all[nearest_solver(training_, solvers, options_.fit_samples, &state_.screening,
                              nullptr)];
  }

  NamedSolver resolved(const std::string& name) const {
    return {name, resolve_solver(SolverName::parse(name), family_->nfe(), options_.field).at()};
  }

  // By a part of the training samples: enough to tell good from bad.
  NamedSolver nearest_on(const std::string& grid) {
    const int64_t kSamples = lm() ? 48 : 8;
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
        state_.method == options_.method && state_.seed == options_.seed && same_starts) {
      return;
    }
    throw bad_input(
        "the stored state is of another distillation ({} with {} evaluations by {}, seed {}, {} "
        "starts); go on with the same options or begin anew",
        state_.family, state_.nfe, to_string(state_.method), state_.seed, state_.starts.size());
  }

  // Fewer and fewer starts get further and further. Those that went on lead whatever the others had
  // reached, so a run that was stopped finds the same ones again; that is why one that diverged
  // keeps its place.
  Verdict try_starts() {
    if (state_.starts.size() == 1) return Verdict::go_on;
    int64_t measurements = 0;
    for (const size_t going_on : {state_.starts.size(), size_t{4}, size_t{2}}) {
      ++measurements;
      std::vector<size_t> tried = ranking();
      tried.resize(std::min(going_on, tried.size()));
      std::sort(tried.begin(), tried.end());
      for (const size_t k : tried) {
        const int64_t until = std::min(measurements * validation_interval(), iterations());
        if (advance(k, until) == Ending::stopped) return Verdict::stop;
      }
    }
    return Verdict::go_on;
  }

  // Iterates one start until it has done `until` iterations or ends before.
  Ending advance(size_t index, int64_t until) {
    StartState& start = state_.starts[index];
    while (true) {
      if (start.diverged) return Ending::diverged;
      if (!adam() && start.stale >= patience()) return Ending::converged;
      if (start.iteration >= until) return Ending::iterations;
      if (options_.most_forwards > 0 && state_.training.forwards >= options_.most_forwards) {
        return Ending::forwards;
      }
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
      if (lm()) average(start);
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

  double advance_by_method(StartState& start) {
    if (adam()) return adam_iteration(start);
    if (lm()) {
      return lm_iteration(training_, *family_, options_.lm, options_.seed, start.iteration,
                          start.gauss_newton, start.theta, &state_.training);
    }
    const auto batch = fresh_batch(start.iteration, training_.count(), direct_batch());
    return direct_iteration(training_, *family_, options_.direct, batch, start.gauss_newton,
                            start.theta, &state_.training);
  }

  // Small samples say little each.
  int64_t direct_batch() const {
    constexpr double kNumbersPerParameter = 8;
    constexpr int64_t kLeast = 16;
    if (options_.direct.batch > 0) return options_.direct.batch;
    const double needed = kNumbersPerParameter * static_cast<double>(family_->parameter_count()) /
                          training_.sample_size();
    return std::max(kLeast, static_cast<int64_t>(std::ceil(needed)));
  }

  double adam_iteration(StartState& start) {
    const auto batch =
        draw_batch(options_.seed, start.iteration, training_.count(), options_.adam.batch);
    LocalModelOptions gradient_only;
    gradient_only.probes = 0;
    const LocalModel model =
        training_.local_model(family_->solver(start.theta), batch, gradient_only, &state_.training);
    const auto gradient = transposed_product(family_->jacobian(start.theta), model.gradient);
    adam_update(options_.adam, start.iteration, iterations(), gradient, start.adam, start.theta);
    return model.loss;
  }

  void average(StartState& start) const {
    if (start.average.empty()) start.average = start.theta;
    const double keep = options_.lm.lookahead;
    for (size_t i = 0; i < start.theta.size(); ++i) {
      start.average[i] = keep * start.average[i] + (1 - keep) * start.theta[i];
    }
  }

  // Of the iterate and the average of iterates, the better one goes on.
  void choose_average(StartState& start) {
    const double averaged = validation_psnr(start.average);
    if (averaged > start.validation_psnr) {
      start.validation_psnr = averaged;
      start.theta = start.average;
    } else {
      start.average = start.theta;
    }
  }

  void validate(StartState& start) {
    start.validation_psnr = validation_psnr(start.theta);
    if (lm() && options_.lm.lookahead > 0) choose_average(start);
    start.stale =
        start.validation_psnr > start.best_psnr + options_.least_gain ? 0 : start.stale + 1;
    if (start.validation_psnr > start.best_psnr) {
      start.best_psnr = start.validation_psnr;
      start.best_theta = start.theta;
    }
  }

  // Iterations fit the last step to their own few samples; here it is fitted to all. A sample on
  // which the solver diverges leaves it as it is.
  void polish(size_t index) {
    StartState& start = state_.starts[index];
    if (!training_.is_linear() || family_->last_step().empty()) return;
    try {
      LinearModel last = training_.last_step(family_->solver(start.best_theta),
                                             first_samples(training_), &state_.training);
      last.floor = options_.direct.smoothing * last.typical_square();
      const std::vector<double> change = best_change(last);
      std::vector<double> theta = start.best_theta;
      for (size_t i = 0; i < change.size(); ++i) theta[family_->last_step()[i]] += change[i];
      const double psnr = validation_psnr(theta);
      if (!(psnr > start.best_psnr)) return;
      start.best_psnr = psnr;
      start.best_theta = theta;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
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

  // The starts, the best first.
  std::vector<size_t> ranking() const {
    std::vector<size_t> order(state_.starts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
      return state_.starts[left].best_psnr > state_.starts[right].best_psnr;
    });
    return order;
  }

  // One that diverged cannot go on, and is chosen only where all did.
  size_t best_start() const {
    const auto order = ranking();
    const auto found = std::find_if(order.begin(), order.end(),
                                    [&](size_t k) { return !state_.starts[k].diverged; });
    return found == order.end() ? order.front() : *found;
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
  constexpr int64_t kDirect = 8, kLm = 60, kAdam = 15000;
  if (method == Method::fit) return 0;
  if (iterations > 0) return iterations;
  return method == Method::adam ? kAdam : method == Method::direct ? kDirect : kLm;
}

void DistillOptions::validate() const {
  check_nfe(nfe);
  if (family && family->nfe() != nfe) {
    throw usage_error("the family spends {} evaluations, {} were asked for", family->nfe(), nfe);
  }
  if (method == Method::fit && (!starts.empty() || (family && family->name() != "bns"))) {
    throw usage_error(
        "the fit makes bns solvers from trajectories alone; give it neither a start nor another "
        "family, or take another method");
  }
  if (starts.empty() && !field.schedule) {
    throw usage_error("automatic starts need to know the schedule of the field");
  }
  if (lm.batch < 1 || adam.batch < 1) {
    throw usage_error("batches need at least one sample, found {} (lm) and {} (adam)", lm.batch,
                      adam.batch);
  }
  const auto fraction = [](double value) { return value >= 0 && value < 1; };
  if (lm.probes < 1 || !fraction(lm.averaging) || !fraction(lm.lookahead) || !(lm.smoothing >= 0) ||
      !(lm.damping > 0) || !(lm.shrink > 1) || lm.attempts < 1) {
    throw usage_error(
        "lm needs probes and attempts >= 1, averaging and lookahead in [0, 1), smoothing >= 0, "
        "damping > 0 and shrink > 1, found {}, {}, {}, {}, {}, {} and {}",
        lm.probes, lm.attempts, lm.averaging, lm.lookahead, lm.smoothing, lm.damping, lm.shrink);
  }
  if (fit_samples < 1 || !(fit.smoothing >= 0)) {
    throw usage_error("the fit needs at least one sample and smoothing >= 0, found {} and {}",
                      fit_samples, fit.smoothing);
  }
  if (direct.batch < 0 || direct.attempts < 1 || !fraction(direct.averaging) ||
      !(direct.smoothing >= 0) || !(direct.damping > 0) || !(direct.shrink > 1) ||
      !(direct.grow > 1) || !(direct.difference > 0) ||
      !(direct.time_difference > 0 && direct.time_difference < 0.5)) {
    throw usage_error(
        "direct needs a batch >= 0, attempts >= 1, averaging in [0, 1), smoothing >= 0, damping > "
        "0, "
        "shrink and grow > 1, difference > 0 and time_difference in (0, 0.5)");
  }
  if (iterations < 0 || most_forwards < 0 || validation_interval < 0) {
    throw usage_error("iterations, limits and intervals must not be negative");
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
      "{} evaluations reach {:.2f} dB on the validation samples ({:.2f} on the training samples) "
      "after {} iterations from {}, which had {:.2f} dB. It took {} forwards and {} "
      "vector-Jacobian products to train, {} forwards to choose starts and {} to validate, in "
      "{:.1f} s, and ended: {}.",
      solver.nfe(), validation_psnr, training_psnr, iterations, start, initial_psnr,
      grouped(training.forwards), grouped(training.vjps), grouped(screening.forwards),
      grouped(validation.forwards), seconds, to_string(ending));
  if (!message.empty()) text += fmt::format(" What diverged: {}.", message);
  return text;
}

DistillSummary distill(const Objective& training, const Objective& validation,
                       const DistillOptions& options, DistillState state) {
  options.validate();
  return Distillation(training, validation, options, std::move(state)).run();
}

}  // namespace bespoke
