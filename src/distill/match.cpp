#include "bespoke/distill/match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/distill/coefficients.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/statistics.h"
#include "evidence.h"
#include "trials.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int kMatchAttempts = 4;  // dampings tried in an iteration

// Samples that the Jacobian is of, at most: as many as are needed to know a direction.
int64_t slope_samples(int64_t samples, size_t features) {
  constexpr int64_t kSamples = 320;
  return std::min(samples, std::max(kSamples, 2 * static_cast<int64_t>(features)));
}

// Wider than where samples alone are matched: few evaluations leave large errors, and what is
// learnt has to hold over them.
DirectOptions match_differences() {
  DirectOptions options;
  options.difference = 0.03;
  options.time_difference = 0.1;
  return options;
}

double squared_length(const std::vector<double>& vector) {
  double sum = 0;
  for (const double value : vector) sum += value * value;
  return sum;
}

void append_to(Matrix& matrix, const Matrix& rows) {
  matrix.rows += rows.rows;
  matrix.columns = rows.columns;
  matrix.values.insert(matrix.values.end(), rows.values.begin(), rows.values.end());
}

// Features of the model's own samples.
Matrix targets_of(const Samples& samples, const MatchOptions& options) {
  if (samples.is_masked()) {
    throw bad_input(
        "features are of whole samples, and an error mask says that parts of them do not count; "
        "match samples alone, or leave out the mask");
  }
  try {
    return samples.features_of_targets(options.features, first_samples(samples));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    throw bad_input("the model's own samples cannot be matched: {}", error.what());
  }
}

// Parameters as directions among the columns of a linearisation, each of which has its share of a
// coefficient.
Matrix directions_of(const std::vector<size_t>& indices, const Matrix& family_jacobian) {
  std::vector<double> shares(family_jacobian.rows, 0);
  for (const size_t index : indices) shares[index] += 1;
  Matrix directions(family_jacobian.columns, indices.size());
  for (size_t k = 0; k < directions.rows; ++k) {
    for (size_t c = 0; c < indices.size(); ++c) {
      directions(k, c) = family_jacobian(indices[c], k) / shares[indices[c]];
    }
  }
  return directions;
}

// Changes of features of each direction apart.
std::vector<Matrix> changes_by_direction(const Matrix& changes, size_t directions) {
  const size_t size = changes.columns / directions;
  std::vector<Matrix> all;
  for (size_t k = 0; k < directions; ++k) {
    Matrix one(changes.rows, size);
    for (size_t s = 0; s < changes.rows; ++s) {
      for (size_t j = 0; j < size; ++j) one(s, j) = changes(s, k * size + j);
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

class Matching::Problem {
 public:
  Problem(const Samples& samples, FamilyPtr family, const MatchOptions& options)
      : samples_(samples),
        family_(std::move(family)),
        options_(options),
        statistics_(targets_of(samples, options), options.groups) {}

  double iterate(MatchState& state, Counts* counts) {
    constexpr double kFirstDamping = 1e-2, kLeastDamping = 1e-9, kMostDamping = 1e3;
    constexpr double kFarther = 100;  // damped, where no trial was better
    const Counts before = *counts;
    if (!standing_) {
      Counts again;  // where a run goes on: this was counted before
      standing_ = measure(state.theta, state.floor, state.iteration == 0 ? counts : &again);
    }
    begin(state);
    const Slope slope = slope_at(state.theta, state.floor, counts);
    if (state.damping == 0) state.damping = kFirstDamping;
    std::vector<Standing> tried;  // of trials, in their order
    const auto attempt = [&](const std::vector<double>& dampings) {
      std::vector<Trial> trials;
      for (const double damping : dampings) {
        Trial trial{damping, std::numeric_limits<double>::infinity(),
                    moved(*family_, slope.curvature, damping, slope.gradient, state.theta)};
        if (!trial.theta.empty()) {
          tried.push_back(measure_or_none(trial.theta, state.floor, counts));
          trial.loss = tried.back().objective;
        }
        trials.push_back(std::move(trial));
      }
      return trials;
    };
    const double objective = standing_->objective;
    Trial best = best_trial(attempt, state.damping, kMatchAttempts);
    if (!(best.loss < objective)) best = best_trial(attempt, kFarther * state.damping, 2);
    state.damping = std::clamp(best.damping, kLeastDamping, kMostDamping);
    take(best, tried, state);
    ++state.iteration;
    state.counts.forwards += counts->forwards - before.forwards;
    return objective;
  }

  int64_t least_cost() const {
    const SolverShape shape = family_->shape();
    return slope_count() * calls_of_jacobian(shape) + samples_.count() * int64_t{2} * shape.calls();
  }

 private:
  // What a solver does on all samples.
  struct Standing {
    std::vector<double> statistics;
    double loss = std::numeric_limits<double>::infinity();  // the mean log error
    double objective = std::numeric_limits<double>::infinity();
  };

  struct Slope {
    std::vector<double> gradient;
    Matrix curvature;
  };

  int64_t slope_count() const { return slope_samples(samples_.count(), statistics_.features()); }

  // Work on the first so many samples, as many at a time as make every member of a team a full
  // batch.
  template <class Work>
  void for_each_chunk(int64_t count, const Work& work) const {
    const std::vector<int64_t> all = first_samples(samples_, count);
    const auto step = static_cast<size_t>(samples_.full_batch());
    for (size_t begin = 0; begin < all.size(); begin += step) {
      const size_t end = std::min(all.size(), begin + step);
      work(std::vector<int64_t>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                all.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  }

  // Statistics are weighted for the solver an iteration begins with.
  void begin(MatchState& state) {
    weights_ = statistics_.weights(standing_->statistics);
    state.distance = distance_of(*standing_);
    if (state.iteration == 0) state.first_distance = state.distance;
    const double weight =
        options_.weight > 0 ? options_.weight : usual_match_weight(options_.match, family_->nfe());
    paired_weight_ = weight * state.first_distance;
    standing_->objective = objective_of(*standing_);
  }

  // What the statistics miss those of the model's samples by, weighted.
  std::vector<double> residual_of(const Standing& standing) const {
    std::vector<double> residual;
    for (size_t i = 0; i < weights_.size(); ++i) {
      residual.push_back(weights_[i] * (standing.statistics[i] - statistics_.wanted()[i]));
    }
    return residual;
  }

  double distance_of(const Standing& standing) const {
    return squared_length(residual_of(standing));
  }

  double objective_of(const Standing& standing) const {
    return distance_of(standing) + paired_weight_ * standing.loss;
  }

  Standing measure(const std::vector<double>& theta, double& floor, Counts* counts) const {
    const NsSolver solver = family_->solver(theta);
    std::vector<double> errors;
    Matrix features;
    for_each_chunk(samples_.count(), [&](const std::vector<int64_t>& chunk) {
      const Runs runs = samples_.run(solver, chunk, counts, Keep::end);
      const std::vector<double> some = samples_.log_errors(runs);
      errors.insert(errors.end(), some.begin(), some.end());
      append_to(features, samples_.features_of_ends(options_.features, runs));
    });
    if (floor == 0) floor = options_.smoothing * std::exp(mean(errors));
    for (double& error : errors) error = std::log(std::exp(error) + floor);
    Standing standing;
    standing.statistics = statistics_.of(features);
    standing.loss = mean(errors);
    if (!weights_.empty()) standing.objective = objective_of(standing);
    return standing;
  }

  // Infinite where the solver is not finite on a sample.
  Standing measure_or_none(const std::vector<double>& theta, double& floor, Counts* counts) const {
    try {
      return measure(theta, floor, counts);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      return {};
    }
  }

  // The slope of the objective in theta.
  Slope slope_at(const std::vector<double>& theta, double floor, Counts* counts) const {
    const NsSolver solver = family_->solver(theta);
    const Matrix family_jacobian = family_->jacobian(theta);
    const auto changes = jacobian_changes(solver, family_jacobian, match_differences());
    const std::vector<size_t> indices = column_indices(changes, family_->shape());
    const Matrix directions = directions_of(indices, family_jacobian);
    const size_t coefficients = family_jacobian.rows;
    LinearModelSlope paired{std::vector<double>(coefficients, 0),
                            Matrix(coefficients, coefficients)};
    StatisticsSlope statistics = statistics_.slope(directions.rows);
    const int64_t count = slope_count();
    for_each_chunk(count, [&](const std::vector<int64_t>& chunk) {
      const Runs runs = samples_.run(solver, chunk, counts);
      Columns columns = samples_.columns(runs, changes, counts);
      columns.model.floor = floor * columns.model.size;
      const auto share = static_cast<double>(chunk.size()) / static_cast<double>(count);
      add(paired, slope_of(columns.model), indices, share);
      const Matrix ends = samples_.features_of_ends(options_.features, runs);
      const Matrix moved =
          samples_.feature_changes(options_.features, ends, runs, columns, directions);
      statistics_.add(ends, changes_by_direction(moved, directions.rows),
                      static_cast<size_t>(chunk.front()), statistics);
    });
    return joined(weighted(statistics.jacobian()), paired, family_jacobian);
  }

  Matrix weighted(Matrix jacobian) const {
    for (size_t row = 0; row < jacobian.rows; ++row) {
      for (size_t k = 0; k < jacobian.columns; ++k) jacobian(row, k) *= weights_[row];
    }
    return jacobian;
  }

  // The slope of the sum, of both of its terms.
  Slope joined(const Matrix& statistics, const LinearModelSlope& paired,
               const Matrix& family_jacobian) const {
    Slope slope{transposed_product(family_jacobian, paired.gradient),
                congruence(paired.curvature, family_jacobian)};
    for (double& value : slope.gradient) value *= paired_weight_;
    for (double& value : slope.curvature.values) value *= paired_weight_;
    const std::vector<double> gradient = transposed_product(statistics, residual_of(*standing_));
    for (size_t i = 0; i < gradient.size(); ++i) slope.gradient[i] += 2 * gradient[i];
    for (size_t row = 0; row < statistics.rows; ++row) {
      for (size_t i = 0; i < statistics.columns; ++i) {
        for (size_t j = 0; j < statistics.columns; ++j) {
          slope.curvature(i, j) += 2 * statistics(row, i) * statistics(row, j);
        }
      }
    }
    return slope;
  }

  // Goes to the best trial where that is better, and says whether another iteration may pay.
  void take(const Trial& best, const std::vector<Standing>& tried, MatchState& state) {
    constexpr double kLeastGain = 0.02;  // of the distance there was
    const double gain = standing_->objective - best.loss;
    state.is_over = !(gain > kLeastGain * state.distance);
    if (!(gain > 0)) return;
    const auto is_best = [&](const Standing& one) { return one.objective == best.loss; };
    standing_ = *std::find_if(tried.begin(), tried.end(), is_best);
    state.theta = best.theta;
    state.distance = distance_of(*standing_);
  }

  const Samples& samples_;
  FamilyPtr family_;
  MatchOptions options_;
  Statistics statistics_;
  std::vector<double> weights_;  // of statistics
  double paired_weight_ = 0;     // of the mean log error
  std::optional<Standing> standing_;
};

Matching::Matching(const Samples& samples, FamilyPtr family, const MatchOptions& options)
    : problem_(std::make_unique<Problem>(samples, std::move(family), options)) {}

Matching::~Matching() = default;

double Matching::iterate(MatchState& state, Counts* counts) {
  return problem_->iterate(state, counts);
}

int64_t Matching::least_cost() const { return problem_->least_cost(); }

}  // namespace bespoke
