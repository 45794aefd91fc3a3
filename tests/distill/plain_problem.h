#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/distill/family.h"
#include "bespoke/distill/objective.h"
#include "plain_field.h"

namespace bespoke::testing {

inline double inner_product(const Array& left, const Array& right) {
  return std::inner_product(left.values.begin(), left.values.end(), right.values.begin(), 0.0);
}

// The objective on a mixture in plain arrays, sample by sample: what any program that has a model
// must answer. Derivatives are differences in every coefficient, so nothing is estimated by probes.
class PlainObjective : public Objective {
 public:
  // What is wrong with the model's answers.
  struct Flaws {
    double rounding = 0;  // to multiples of this
    double jitter = 0;    // another error in every call, up to this
  };

  PlainObjective(const PlainMixture& mixture, const SchedulePtr& schedule, size_t count,
                 uint64_t seed, Flaws flaws = {0, 0})
      : dimension_(mixture.dimension),
        flaws_(flaws),
        mixture_(mixture),
        schedule_(schedule),
        field_(mixture_field(mixture, schedule)) {
    const Array noise = starting_noise(*schedule, count, dimension_, seed);
    const Array data = exact_flow(mixture, *schedule, noise, 0, 1, 500);
    for (size_t i = 0; i < count; ++i) {
      noises_.push_back(sample_of(noise, i));
      targets_.push_back(sample_of(data, i));
    }
    trajectories_ = static_cast<int64_t>(count);
  }

  int64_t count() const override { return static_cast<int64_t>(noises_.size()); }
  double sample_size() const override { return static_cast<double>(dimension_); }
  bool is_linear() const override { return true; }
  double data_deviation() const override {
    double sum = 0;
    for (const Array& x : targets_) sum += inner_product(x, x);
    return std::sqrt(sum / static_cast<double>(targets_.size() * dimension_));
  }

  std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& subset,
                                 Counts* counts) const override {
    std::vector<double> errors;
    for (const int64_t i : subset) {
      const Array r = residual(solver, i, counts);
      errors.push_back(std::log(squared(r) / sample_size()));
    }
    return errors;
  }

  LinearModel last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                        Counts* counts) const override {
    LinearModel last;
    last.size = sample_size();
    for (const int64_t i : subset) last.samples.push_back(last_step_of(solver, i, counts));
    return last;
  }

  // Each change by itself, in a run of its own: only what it costs is as if it were made along the
  // run.
  std::unique_ptr<Linearisation> linearise(const NsSolver& solver,
                                           const std::vector<int64_t>& subset,
                                           const std::vector<Change>& changes,
                                           Counts* counts) const override {
    auto result = std::make_unique<Columns>(*this, subset);
    for (const int64_t i : subset) {
      const Recorded base = recorded_run(solver, i);
      counts->forwards += solver.nfe();
      std::vector<Array> columns;
      for (const Change& change : changes) {
        const double by = amount(change, solver, base);
        auto coefficients = coefficients_of(solver);
        coefficients[index_of(change, solver.nfe())] += by;
        const Recorded moved = recorded_run(solver_of(solver.nfe(), coefficients), i);
        columns.push_back((moved.residual - base.residual) / by);
        counts->forwards += solver.nfe() - change.first_evaluation();
      }
      columns.insert(columns.end(), base.basis.begin(), base.basis.end());
      result->append(std::move(columns), base.residual);
    }
    return result;
  }

  int64_t trajectories() const override { return trajectories_; }
  void know_trajectories(int64_t first) { trajectories_ = first; }
  std::unique_ptr<StepwiseRun> begin_run(const SolverShape& shape,
                                         const std::vector<int64_t>& subset,
                                         Counts* counts) const override {
    if (shape.guides_itself()) throw std::logic_error("this model has no guidance");
    return std::make_unique<Steps>(*this, subset, counts);
  }

  LossGradient loss_gradient(const NsSolver& solver, const std::vector<int64_t>& subset,
                             Counts* counts) const override {
    LossGradient at{0, std::vector<double>(coefficient_count(solver.nfe()), 0)};
    const auto total = static_cast<double>(subset.size());
    for (const int64_t i : subset) {
      const Array r = residual(solver, i, counts);
      at.loss += std::log(squared(r) / sample_size()) / total;
      const std::vector<Array> columns = jacobian(solver, i, counts);
      for (size_t j = 0; j < columns.size(); ++j) {
        at.gradient[j] += 2 / (total * squared(r)) * inner_product(columns[j], r);
      }
    }
    return at;
  }

 private:
  class Columns : public Linearisation {
   public:
    Columns(const PlainObjective& objective, std::vector<int64_t> subset)
        : objective_(objective), subset_(std::move(subset)) {
      model_.size = objective.sample_size();
    }
    void append(std::vector<Array> columns, const Array& residual) {
      model_.samples.push_back(objective_.gram_of(columns, residual));
      columns_.push_back(std::move(columns));
    }
    const LinearModel& model() const override { return model_; }
    LinearModel against(const NsSolver& solver, Counts* counts) const override {
      LinearModel moved = model_;
      for (size_t k = 0; k < subset_.size(); ++k) {
        moved.samples[k] =
            objective_.gram_of(columns_[k], objective_.residual(solver, subset_[k], counts));
      }
      return moved;
    }

   private:
    const PlainObjective& objective_;
    std::vector<int64_t> subset_;
    LinearModel model_;
    std::vector<std::vector<Array>> columns_;
  };

  // The samples of a fit, one after the other.
  class Steps : public StepwiseRun {
   public:
    Steps(const PlainObjective& objective, const std::vector<int64_t>& subset, Counts* counts)
        : objective_(objective), counts_(counts) {
      for (const int64_t i : subset) {
        if (i >= objective.trajectories()) throw std::logic_error("its trajectory is not known");
        noises_.push_back(objective.noises_[static_cast<size_t>(i)]);
      }
      columns_.resize(noises_.size());
    }
    LinearModel noise_against(double time) override {
      std::vector<std::vector<Array>> columns;
      for (const Array& noise : noises_) columns.push_back({noise});
      return against(columns, time);
    }
    void start(double scale) override {
      states_.clear();
      for (size_t k = 0; k < noises_.size(); ++k) {
        states_.push_back(scale * noises_[k]);
        columns_[k] = {states_[k]};
      }
    }
    LinearModel evaluate(double time, double next_time) override {
      for (size_t k = 0; k < states_.size(); ++k) {
        columns_[k].push_back(objective_.velocity(time, states_[k]));
        ++counts_->forwards;
      }
      return against(columns_, next_time);
    }
    void advance(const std::vector<double>& coefficients) override {
      for (size_t k = 0; k < states_.size(); ++k) {
        states_[k] = coefficients[0] * columns_[k][0];
        for (size_t j = 1; j < coefficients.size(); ++j) {
          states_[k] = states_[k] + coefficients[j] * columns_[k][j];
        }
      }
    }

   private:
    LinearModel against(const std::vector<std::vector<Array>>& columns, double time) const {
      LinearModel model;
      model.size = objective_.sample_size();
      for (size_t k = 0; k < noises_.size(); ++k) {
        model.samples.push_back(
            objective_.gram_of(columns[k], -1.0 * objective_.state_at(noises_[k], time)));
      }
      return model;
    }

    const PlainObjective& objective_;
    Counts* counts_;
    std::vector<Array> noises_, states_;
    std::vector<std::vector<Array>> columns_;
  };

  Array state_at(const Array& noise, double time) const {
    return exact_flow(mixture_, *schedule_, noise, 0, time, 500);
  }

  // Where a change lies among the coefficients.
  static size_t index_of(const Change& change, int nfe) {
    const auto n = static_cast<size_t>(nfe), step = static_cast<size_t>(change.step);
    const auto row = [n](size_t i) { return 2 * n + 1 + i * (i + 1) / 2; };
    if (change.what == Change::What::start_scale) return row(n);
    if (change.what == Change::What::time) return step;
    return change.column == 0 ? n + 1 + step : row(step) + static_cast<size_t>(change.column) - 1;
  }

  LinearModel::Sample gram_of(const std::vector<Array>& columns, const Array& r) const {
    LinearModel::Sample sample{squared(r), {}, Matrix(columns.size(), columns.size())};
    for (size_t j = 0; j < columns.size(); ++j) {
      sample.products.push_back(inner_product(columns[j], r));
      for (size_t k = 0; k < columns.size(); ++k) {
        sample.gram(j, k) = inner_product(columns[j], columns[k]);
      }
    }
    return sample;
  }

  Array sample_of(const Array& all, size_t i) const {
    const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(i * dimension_);
    return {{begin, begin + static_cast<std::ptrdiff_t>(dimension_)}};
  }

  double squared(const Array& r) const {
    return std::max(inner_product(r, r), kLeastError * sample_size());
  }

  Array velocity(double t, const Array& x) const {
    Array u = field_.velocity(t, x);
    for (double& value : u.values) {
      if (flaws_.rounding > 0) value = flaws_.rounding * std::round(value / flaws_.rounding);
      if (flaws_.jitter > 0) value += flaws_.jitter * std::sin(static_cast<double>(++calls_) * 37);
    }
    return u;
  }

  // A run with the states evaluated at, and x_0, u_0, u_1 ...
  struct Recorded {
    std::vector<Array> states, basis;
    Array residual;
  };

  Recorded recorded_run(const NsSolver& solver, int64_t i) const {
    const auto index = static_cast<size_t>(i);
    Recorded recorded;
    recorded.basis = {solver.start_scale * noises_[index]};
    const auto field = [&](double t, const Array& x) {
      recorded.states.push_back(x);
      recorded.basis.push_back(velocity(t, x));
      return recorded.basis.back();
    };
    recorded.residual = run(solver, field, noises_[index]) - targets_[index];
    if (!all_finite(recorded.residual)) {
      throw Error(ErrorKind::diverged, "the state overflowed");
    }
    return recorded;
  }

  // By how much a change moves its number.
  double amount(const Change& change, const NsSolver& solver, const Recorded& base) const {
    if (change.what == Change::What::time) return change.size;
    if (change.what == Change::What::start_scale) return change.size * solver.start_scale;
    const Array& state = base.states[static_cast<size_t>(change.step) + 1];
    const Array& direction = base.basis[static_cast<size_t>(change.column)];
    return change.size * std::sqrt(squared(state) / squared(direction));
  }

  Array residual(const NsSolver& solver, int64_t i, Counts* counts) const {
    counts->forwards += solver.nfe();
    return recorded_run(solver, i).residual;
  }

  LinearModel::Sample last_step_of(const NsSolver& solver, int64_t i, Counts* counts) const {
    const Recorded recorded = recorded_run(solver, i);
    counts->forwards += solver.nfe();
    return gram_of(recorded.basis, recorded.residual);
  }

  // dx_n / dc for every coefficient c, by central differences.
  std::vector<Array> jacobian(const NsSolver& solver, int64_t i, Counts* counts) const {
    constexpr double kStep = 1e-6;
    const std::vector<double> coefficients = coefficients_of(solver);
    std::vector<Array> columns;
    for (size_t j = 0; j < coefficients.size(); ++j) {
      const auto moved = [&](double by) {
        auto changed = coefficients;
        changed[j] += by;
        return residual(solver_of(solver.nfe(), changed), i, counts);
      };
      columns.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
    }
    return columns;
  }

  size_t dimension_;
  Flaws flaws_;
  mutable int64_t calls_ = 0;
  PlainMixture mixture_;
  SchedulePtr schedule_;
  PlainField field_;
  std::vector<Array> noises_, targets_;
  int64_t trajectories_;  // of the first samples
};

// A small mixture to train and to validate on.
struct PlainProblem {
  PlainObjective training, validation;

  explicit PlainProblem(const SchedulePtr& schedule)
      : training(plain_mixture(), schedule, 64, 1), validation(plain_mixture(), schedule, 48, 2) {}
};

}  // namespace bespoke::testing
