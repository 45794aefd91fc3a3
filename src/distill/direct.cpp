#include "bespoke/distill/direct.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/base/spec.h"
#include "evidence.h"
#include "trials.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kMostAttempts = 1000;  // far beyond the range of a double

double weight_of(const Evidence& evidence) {
  return evidence.weight * static_cast<double>(evidence.model.samples.size());
}

// The slope in all coefficients, zero in those that were not changed.
LinearModelSlope slope_of(std::vector<Evidence>& all, double smoothing, const SolverShape& shape) {
  double total = 0, log_square = 0;
  for (const Evidence& evidence : all) {
    total += weight_of(evidence);
    log_square += weight_of(evidence) * std::log(evidence.model.typical_square());
  }
  const size_t count = coefficient_count(shape);
  LinearModelSlope whole{std::vector<double>(count, 0), Matrix(count, count)};
  for (Evidence& evidence : all) {
    evidence.model.floor = smoothing * std::exp(log_square / total);
    add(whole, slope_of(evidence.model), evidence.indices, weight_of(evidence) / total);
  }
  return whole;
}

// What columns count for since when the loss on their samples fell by so much: as much as new ones
// at first, and little where the solver has left where they were taken far behind.
double weight_after(double fall) {
  constexpr double kNear = 1, kPower = 2;
  return std::min(1.0, std::exp(kPower * (kNear - fall)));
}

double plain_loss(const LinearModel& model) {
  return model.loss(std::vector<double>(model.columns(), 0));
}

// The smoothed loss of solvers on some samples, with the last step put where it is best where it is
// free. The first solver measured sets the floor.
class Refitted {
 public:
  Refitted(const Samples& samples, const Family& family, double smoothing)
      : samples_(samples),
        family_(family),
        smoothing_(smoothing),
        refits_(samples.is_linear() && !family.last_step().empty()) {}

  // The loss of the solver of theta, whose runs these are; theta gets the refitted last step.
  double measure(const Runs& runs, std::vector<double>& theta) {
    return refits_ ? refit(runs, theta) : plain(runs);
  }

  // Infinite where it is not finite.
  double measure(const std::optional<Runs>& runs, std::vector<double>& theta) {
    return runs ? measure(*runs, theta) : std::numeric_limits<double>::infinity();
  }

 private:
  double plain(const Runs& runs) {
    auto errors = samples_.log_errors(runs);
    const double size = samples_.sample_size();
    if (floor_ < 0) floor_ = smoothing_ * std::exp(mean(errors)) * size;
    for (double& e : errors) e = std::log(std::exp(e) + floor_ / size);
    return mean(errors);
  }

  double refit(const Runs& runs, std::vector<double>& theta) {
    LinearModel last = samples_.last_step(runs);
    if (floor_ < 0) floor_ = smoothing_ * last.typical_square();
    last.floor = floor_;
    const std::vector<double> change = best_change(last);
    const std::vector<size_t> indices = family_.last_step();
    for (size_t i = 0; i < change.size(); ++i) theta[indices[i]] += change[i];
    return last.loss(change);
  }

  const Samples& samples_;
  const Family& family_;
  double smoothing_;
  bool refits_;
  double floor_ = -1;
};

constexpr double kLeastDifference = 2e-3;  // of coefficients, where answers are exact

// As narrow as the noise of answers lets: wide differences see slopes that are not there, so that
// soon no step is a gain.
double time_difference_for(const DirectOptions& options, int nfe) {
  constexpr double kNarrow = 0.05;
  if (options.time_difference > 0) return options.time_difference;
  return std::min(far_time_difference(nfe),
                  kNarrow * std::max(1.0, options.difference / kLeastDifference));
}

// The larger, the less the noise of answers matters and the more the curvature: they balance about
// the root of the noise.
double difference_for(double noise) {
  constexpr double kMostNoise = 0.05;
  if (!(noise < kMostNoise)) {
    throw bad_input(
        "the model answers nearly the same call differently: its samples change by {:.2g} of their "
        "deviation, and up to {} differences can be taken; make it deterministic (dropout off, "
        "fixed seeds, no noise inside) or more precise",
        noise, kMostNoise);
  }
  return std::max(kLeastDifference, std::sqrt(noise));
}

bool moves(const Matrix& jacobian, size_t coefficient) {
  for (size_t j = 0; j < jacobian.columns; ++j) {
    if (jacobian(coefficient, j) != 0) return true;
  }
  return false;
}

}  // namespace

bool is_costly(int nfe) {
  constexpr int kMany = 14;
  return nfe > kMany;
}

int64_t judges_for(const DirectOptions& options, int nfe) {
  if (options.judges > 0) return options.judges;
  return is_costly(nfe) ? 8 : 16;
}

int attempts_for(const DirectOptions& options, int nfe) {
  if (options.attempts > 0) return options.attempts;
  return is_costly(nfe) ? 3 : 5;
}

double far_time_difference(int nfe) {
  constexpr double kFar = 0.2, kEvaluations = 8;
  const double part = std::min(1.0, kEvaluations / nfe);
  return kFar * part * part;
}

DirectOptions parse_direct_options(const std::string& text) {
  DirectOptions options;
  const Spec spec = Spec::parse(text.empty() ? "direct" : "direct:" + text);
  spec.allow_only({"smoothing", "damping", "attempts", "judges", "remembered", "difference",
                   "time_difference"});
  options.smoothing = spec.number("smoothing", options.smoothing);
  options.damping = spec.number("damping", options.damping);
  if (spec.options.count("attempts") > 0) {
    const int64_t attempts = spec.integer("attempts", 0);
    if (attempts < 1 || attempts > kMostAttempts) {
      throw usage_error("direct:attempts is from 1 to {}, found {}", kMostAttempts, attempts);
    }
    options.attempts = static_cast<int>(attempts);
  }
  options.judges = spec.integer("judges", options.judges);
  options.remembered = spec.integer("remembered", options.remembered);
  options.difference = spec.number("difference", options.difference);
  options.time_difference = spec.number("time_difference", options.time_difference);
  return options;
}

std::vector<Change> jacobian_changes(const NsSolver& solver, const Matrix& family_jacobian,
                                     const DirectOptions& options) {
  const SolverShape shape = solver.shape();
  const int n = shape.nfe;
  const double part = time_difference_for(options, n);
  std::vector<Change> changes;
  for (int i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const double ahead = solver.times[k + 1] - solver.times[k];
    const double behind = i == 0 ? solver.times[0] : solver.times[k] - solver.times[k - 1];
    const double size = part * (behind > 0 ? std::min(ahead, behind) : ahead);
    if (size > 0) changes.push_back({Change::What::time, i, 0, size});
    if (size > 0 && behind > 0) changes.push_back({Change::What::time, i, 0, -size});
  }
  for (int i = 0; i + 1 < n; ++i) {
    const auto columns = static_cast<int>(shape.columns(static_cast<size_t>(i)));
    for (int column = 0; column < columns; ++column) {
      changes.push_back({Change::What::coefficient, i, column, options.difference});
    }
  }
  changes.push_back({Change::What::start_scale, 0, 0, options.difference});
  const auto unmoved = [&](const Change& change) {
    return !moves(family_jacobian, coefficient_index(change, shape));
  };
  changes.erase(std::remove_if(changes.begin(), changes.end(), unmoved), changes.end());
  return changes;
}

int64_t calls_of_jacobian(const SolverShape& shape) {
  int64_t calls = int64_t{2} * shape.calls();
  for (int i = 0; i < shape.nfe; ++i) {
    const auto columns = static_cast<int64_t>(shape.columns(static_cast<size_t>(i)));
    calls += int64_t{2} * shape.calls_from(i) + columns * shape.calls_from(i + 1);
  }
  return calls;
}

double answer_noise(const Samples& samples, const Runs& runs, const NsSolver& solver,
                    Counts* counts) {
  constexpr double kSmall = 2e-4;  // of x_0: so little that a smooth model is linear
  const Columns columns = samples.columns(
      runs, {{Change::What::start_scale, 0, 0, kSmall}, {Change::What::start_scale, 0, 0, -kSmall}},
      counts);
  const LinearModel& model = columns.model;
  double squares = 0;
  for (const auto& sample : model.samples) {
    squares += sample.gram(0, 0) - 2 * sample.gram(0, 1) + sample.gram(1, 1);
  }
  const double per_number = squares / (static_cast<double>(model.samples.size()) * model.size);
  return kSmall * std::abs(solver.start_scale) * std::sqrt(std::max(per_number, 0.0) / 2) /
         samples.data_deviation();
}

namespace {

bool share_samples(const std::vector<int64_t>& left, const std::vector<int64_t>& right) {
  return std::any_of(left.begin(), left.end(), [&](int64_t sample) {
    return std::find(right.begin(), right.end(), sample) != right.end();
  });
}

// One iteration on its way.
class Iteration {
 public:
  Iteration(const Samples& samples, const Family& family, const DirectOptions& options,
            DirectState& state, Counts* counts)
      : samples_(samples), family_(family), options_(options), state_(state), counts_(counts) {}

  // Before the first: the last step where it is best, and how wide differences are to be.
  void begin(const std::vector<int64_t>& batch, std::vector<double>& theta) {
    const bool first = state_.damping == 0, measures = state_.difference == 0;
    if (first) state_.damping = options_.damping;
    if (measures) state_.difference = options_.difference;
    if (first || state_.difference == 0) {
      Runs runs = samples_.run(family_.solver(theta), batch, counts_);
      if (first) Refitted(samples_, family_, options_.smoothing).measure(runs, theta);
      const NsSolver solver = family_.solver(theta);
      batch_runs_ = samples_.with_last_step(std::move(runs), solver);
      if (state_.difference == 0) {
        state_.difference = difference_for(answer_noise(samples_, *batch_runs_, solver, counts_));
      }
    }
    options_.difference = state_.difference;
    options_.time_difference = time_difference_for(options_, family_.nfe());
  }

  // Forgets the samples that are of the batch again, and takes the columns of the others anew where
  // a run goes on: these were counted before.
  void recall(const std::vector<int64_t>& batch) {
    std::vector<Remembered> others;
    for (Remembered& earlier : state_.memory) {
      if (share_samples(earlier.samples, batch)) continue;
      if (!earlier.columns) {
        Counts again;
        const Runs runs = samples_.run(family_.solver(earlier.theta), earlier.samples, &again);
        earlier.columns = columns_at(earlier, runs, &again);
      }
      others.push_back(std::move(earlier));
    }
    state_.memory = std::move(others);
  }

  // Runs theta on the batch, the judges and the samples remembered.
  void run(const std::vector<int64_t>& batch, const std::vector<int64_t>& judges,
           const std::vector<double>& theta) {
    const NsSolver solver = family_.solver(theta);
    std::vector<std::vector<int64_t>> sets = {judges};
    const bool batch_is_known = batch_runs_ && !samples_.joins_runs();
    if (!batch_is_known) sets.push_back(batch);
    if (samples_.joins_runs()) {
      for (const Remembered& earlier : state_.memory) sets.push_back(earlier.samples);
    }
    auto runs = samples_.run_sets(solver, sets, counts_);
    judge_runs_ = needed(std::move(runs[0]), solver, judges);
    if (!batch_is_known) batch_runs_ = needed(std::move(runs[1]), solver, batch);
    if (samples_.joins_runs()) {
      memory_runs_.assign(std::make_move_iterator(runs.begin() + 2),
                          std::make_move_iterator(runs.end()));
      return;
    }
    sets.clear();
    for (const Remembered& earlier : state_.memory) sets.push_back(earlier.samples);
    memory_runs_ = samples_.run_ends(solver, sets, counts_);
  }

  Remembered linearise(const std::vector<int64_t>& batch, const std::vector<double>& theta) const {
    Remembered here{theta, batch, 0, options_.time_difference, nullptr};
    here.columns = columns_at(here, *batch_runs_, counts_);
    here.loss = plain_loss(here.columns->model);
    return here;
  }

  // What the batch and the samples remembered say. Those on which the solver is not finite are
  // forgotten.
  std::vector<Evidence> evidence(const Remembered& current) {
    std::vector<Remembered> others = std::move(state_.memory);
    state_.memory.clear();
    std::vector<Evidence> all = {{current.columns->model, indices_at(current.theta), 1}};
    for (size_t k = 0; k < others.size(); ++k) {
      if (!memory_runs_[k]) continue;
      LinearModel model = samples_.against(*others[k].columns, *memory_runs_[k]);
      const double weight = weight_after(others[k].loss - plain_loss(model));
      all.push_back({std::move(model), indices_at(others[k].theta), weight});
      state_.memory.push_back(std::move(others[k]));
    }
    return all;
  }

  // Moves theta where the judges gain most.
  void move(std::vector<Evidence> all, const std::vector<int64_t>& judges,
            std::vector<double>& theta) {
    constexpr double kLeastDamping = 1e-9, kMostDamping = 1;
    const LinearModelSlope slope = slope_of(all, options_.smoothing, family_.shape());
    const Matrix jacobian = family_.jacobian(theta);
    const std::vector<double> gradient = transposed_product(jacobian, slope.gradient);
    const Matrix hessian = congruence(slope.curvature, jacobian);
    Refitted judged(samples_, family_, options_.smoothing);
    std::vector<double> unmoved = theta;
    const double standing = judged.measure(*judge_runs_, unmoved);
    const auto attempt = [&](const std::vector<double>& dampings) {
      std::vector<Trial> trials;
      for (const double damping : dampings) {
        trials.push_back({damping, std::numeric_limits<double>::infinity(),
                          moved(family_, hessian, damping, gradient, theta)});
      }
      try_out(trials, judges, judged);
      return trials;
    };
    const Trial best = best_trial(attempt, state_.damping, attempts_for(options_, family_.nfe()));
    state_.damping = std::clamp(best.damping, kLeastDamping, kMostDamping);
    theta = best.loss < standing ? best.theta : unmoved;
  }

  void remember(Remembered latest) {
    state_.memory.push_back(std::move(latest));
    auto& memory = state_.memory;
    int64_t samples = 0;
    for (const Remembered& entry : memory) samples += static_cast<int64_t>(entry.samples.size());
    while (samples > options_.remembered) {
      samples -= static_cast<int64_t>(memory.front().samples.size());
      memory.erase(memory.begin());
    }
  }

 private:
  // Where there are none, running the solver once more says why.
  Runs needed(std::optional<Runs> runs, const NsSolver& solver,
              const std::vector<int64_t>& samples) const {
    return runs ? std::move(*runs) : samples_.run(solver, samples, counts_);
  }

  // The losses of trials whose step could be solved.
  void try_out(std::vector<Trial>& trials, const std::vector<int64_t>& judges,
               Refitted& judged) const {
    std::vector<NsSolver> solvers;
    std::vector<Trial*> solved;
    for (Trial& trial : trials) {
      if (trial.theta.empty()) continue;
      solvers.push_back(family_.solver(trial.theta));
      solved.push_back(&trial);
    }
    if (solvers.empty()) return;
    const auto runs = samples_.run_each(solvers, judges, counts_);
    for (size_t k = 0; k < solved.size(); ++k) {
      solved[k]->loss = judged.measure(runs[k], solved[k]->theta);
    }
  }

  std::vector<Change> changes_at(const std::vector<double>& theta, double time_difference) const {
    DirectOptions options = options_;
    options.time_difference = time_difference;
    return jacobian_changes(family_.solver(theta), family_.jacobian(theta), options);
  }
  std::vector<size_t> indices_at(const std::vector<double>& theta) const {
    return column_indices(changes_at(theta, options_.time_difference), family_.shape());
  }
  std::shared_ptr<const Columns> columns_at(const Remembered& entry, const Runs& runs,
                                            Counts* counts) const {
    return std::make_shared<const Columns>(
        samples_.columns(runs, changes_at(entry.theta, entry.time_difference), counts));
  }

  const Samples& samples_;
  const Family& family_;
  DirectOptions options_;
  DirectState& state_;
  Counts* counts_;
  // Runs of the solver of theta on the batch, the judges and each set of samples remembered.
  std::optional<Runs> batch_runs_, judge_runs_;
  std::vector<std::optional<Runs>> memory_runs_;
};

}  // namespace

double direct_iteration(const Samples& samples, const Family& family, const DirectOptions& options,
                        const std::vector<int64_t>& batch, const std::vector<int64_t>& judges,
                        DirectState& state, std::vector<double>& theta, Counts* counts) {
  Iteration iteration(samples, family, options, state, counts);
  iteration.begin(batch, theta);
  iteration.recall(batch);
  iteration.run(batch, judges, theta);
  Remembered current = iteration.linearise(batch, theta);
  const double before = current.loss;
  iteration.move(iteration.evidence(current), judges, theta);
  iteration.remember(std::move(current));
  return before;
}

}  // namespace bespoke
