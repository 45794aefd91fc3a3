#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
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
  PlainObjective(const PlainMixture& mixture, const SchedulePtr& schedule, size_t count,
                 uint64_t seed)
      : dimension_(mixture.dimension), field_(mixture_field(mixture, schedule)) {
    const Array noise = starting_noise(*schedule, count, dimension_, seed);
    const Array data = exact_flow(mixture, *schedule, noise, 0, 1, 500);
    for (size_t i = 0; i < count; ++i) {
      noises_.push_back(sample_of(noise, i));
      targets_.push_back(sample_of(data, i));
    }
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

  LocalModel local_model(const NsSolver& start, const std::vector<int64_t>& subset,
                         const LocalModelOptions& options, Counts* counts) const override {
    LocalModel model;
    NsSolver solver = start;
    LinearModel last = last_step(solver, subset, counts);
    const std::vector<double> no_change(last.samples.front().products.size(), 0);
    last.floor = model.floor = options.smoothing * sample_size() * std::exp(last.loss(no_change));
    if (options.refit_last_step) {
      model.last_step = best_change(last);
      solver.a.back() += model.last_step[0];
      for (size_t j = 0; j < solver.b.back().size(); ++j) {
        solver.b.back()[j] += model.last_step[1 + j];
      }
    }
    const size_t columns = coefficient_count(solver.nfe());
    model.gradient.assign(columns, 0);
    model.curvature = Matrix(columns, columns);
    for (const int64_t i : subset) {
      add_sample(solver, i, static_cast<double>(subset.size()), model, counts);
    }
    return model;
  }

 private:
  Array sample_of(const Array& all, size_t i) const {
    const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(i * dimension_);
    return {{begin, begin + static_cast<std::ptrdiff_t>(dimension_)}};
  }

  double squared(const Array& r) const {
    return std::max(inner_product(r, r), kLeastError * sample_size());
  }

  Array residual(const NsSolver& solver, int64_t i, Counts* counts) const {
    const auto index = static_cast<size_t>(i);
    counts->forwards += solver.nfe();
    Array r = run(solver, field_, noises_[index]) - targets_[index];
    if (!all_finite(r)) throw Error(ErrorKind::diverged, "the state overflowed");
    return r;
  }

  LinearModel::Sample last_step_of(const NsSolver& solver, int64_t i, Counts* counts) const {
    const auto index = static_cast<size_t>(i);
    std::vector<Array> basis = {solver.start_scale * noises_[index]};
    const auto recorded = [&](double t, const Array& x) {
      basis.push_back(field_.velocity(t, x));
      return basis.back();
    };
    const Array r = run(solver, recorded, noises_[index]) - targets_[index];
    counts->forwards += solver.nfe();
    if (!all_finite(r)) throw Error(ErrorKind::diverged, "the state overflowed");
    LinearModel::Sample sample{squared(r), {}, Matrix(basis.size(), basis.size())};
    for (size_t j = 0; j < basis.size(); ++j) {
      sample.products.push_back(inner_product(basis[j], r));
      for (size_t k = 0; k < basis.size(); ++k)
        sample.gram(j, k) = inner_product(basis[j], basis[k]);
    }
    return sample;
  }

  // One sample's part of the loss, J^T r and J^T J.
  void add_sample(const NsSolver& solver, int64_t i, double total, LocalModel& model,
                  Counts* counts) const {
    const Array r = residual(solver, i, counts);
    const double error = squared(r) + model.floor;
    model.loss += std::log(error / sample_size()) / total;
    const std::vector<Array> columns = jacobian(solver, i, counts);
    for (size_t j = 0; j < columns.size(); ++j) {
      model.gradient[j] += 2 / (total * error) * inner_product(columns[j], r);
      for (size_t k = 0; k < columns.size(); ++k) {
        model.curvature(j, k) += 2 / (total * error) * inner_product(columns[j], columns[k]);
      }
    }
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
  PlainField field_;
  std::vector<Array> noises_, targets_;
};

}  // namespace bespoke::testing
