#include "bespoke/run/linear_model.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/mean.h"

namespace bespoke {

namespace {

double squared_error(const LinearModel& model, const LinearModel::Sample& sample,
                     const std::vector<double>& change) {
  double linear = 0;
  for (size_t i = 0; i < change.size(); ++i) linear += sample.products[i] * change[i];
  return std::max(sample.squared_error + 2 * linear + quadratic_form(sample.gram, change),
                  kLeastError * model.size) +
         model.floor;
}

LinearModelSlope slope_at(const LinearModel& model, const std::vector<double>& change) {
  const size_t n = change.size();
  LinearModelSlope slope{std::vector<double>(n, 0), Matrix(n, n)};
  for (const auto& sample : model.samples) {
    const double weight =
        2 / (squared_error(model, sample, change) * static_cast<double>(model.samples.size()));
    for (size_t i = 0; i < n; ++i) {
      double product = sample.products[i];
      for (size_t j = 0; j < n; ++j) {
        product += sample.gram(i, j) * change[j];
        slope.curvature(i, j) += weight * sample.gram(i, j);
      }
      slope.gradient[i] += weight * product;
    }
  }
  return slope;
}

}  // namespace

double LinearModel::loss(const std::vector<double>& change) const {
  double sum = 0;
  for (const auto& sample : samples) sum += std::log(squared_error(*this, sample, change) / size);
  return sum / static_cast<double>(samples.size());
}

double LinearModel::typical_square() const {
  double sum = 0;
  for (const auto& sample : samples) {
    sum += std::log(std::max(sample.squared_error, kLeastError * size));
  }
  return std::exp(sum / static_cast<double>(samples.size()));
}

LinearModel moved(const LinearModel& model, const std::vector<double>& change) {
  LinearModel result = model;
  for (auto& sample : result.samples) {
    double linear = 0;
    for (size_t i = 0; i < change.size(); ++i) linear += sample.products[i] * change[i];
    sample.squared_error += 2 * linear + quadratic_form(sample.gram, change);
    for (size_t i = 0; i < change.size(); ++i) {
      for (size_t j = 0; j < change.size(); ++j) {
        sample.products[i] += sample.gram(i, j) * change[j];
      }
    }
  }
  return result;
}

std::vector<double> best_change(const LinearModel& model) {
  constexpr int kIterations = 50;
  constexpr double kEnough = 1e-6;  // gain of loss
  constexpr double kGrow = 100;     // of the damping
  std::vector<double> change(model.columns(), 0);
  double loss = model.loss(change), damping = 1e-9;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    LinearModelSlope slope = slope_at(model, change);
    for (size_t i = 0; i < change.size(); ++i) slope.curvature(i, i) *= 1 + damping;
    const std::vector<double> step = solve_positive(slope.curvature, slope.gradient);
    std::vector<double> trial = change;
    for (size_t i = 0; i < step.size(); ++i) trial[i] -= step[i];
    const double gain = loss - model.loss(trial);
    if (!(gain > 0)) {
      damping *= kGrow;
      continue;
    }
    change = trial;
    loss -= gain;
    if (gain < kEnough) break;
  }
  return change;
}

namespace {

std::vector<double> weighted_change(const LinearModel& model, const std::vector<double>& weights) {
  constexpr double kRidge = 1e-10;  // of each column's own square
  const size_t n = model.columns();
  Matrix gram(n, n);
  std::vector<double> right(n, 0);
  for (size_t k = 0; k < model.samples.size(); ++k) {
    const auto& sample = model.samples[k];
    for (size_t i = 0; i < n; ++i) {
      right[i] -= weights[k] * sample.products[i];
      for (size_t j = 0; j < n; ++j) gram(i, j) += weights[k] * sample.gram(i, j);
    }
  }
  // Columns of very different length (velocities near a singular end) are made alike first.
  std::vector<double> scale(n, 1);
  for (size_t i = 0; i < n; ++i) {
    if (gram(i, i) > 0) scale[i] = 1 / std::sqrt(gram(i, i));
  }
  for (size_t i = 0; i < n; ++i) {
    right[i] *= scale[i];
    for (size_t j = 0; j < n; ++j) gram(i, j) *= scale[i] * scale[j];
    gram(i, i) += kRidge;
  }
  std::vector<double> change = solve_positive(std::move(gram), std::move(right));
  for (size_t i = 0; i < change.size(); ++i) change[i] *= scale[i];
  return change;
}

}  // namespace

std::vector<double> least_squares_change(const LinearModel& model) {
  return weighted_change(model, std::vector<double>(model.samples.size(), 1));
}

std::vector<double> balanced_change(const LinearModel& model, double smoothing) {
  constexpr int kRounds = 3;
  std::vector<double> change = least_squares_change(model);
  if (model.samples.size() == 1) return change;
  for (int round = 0; round < kRounds && !change.empty(); ++round) {
    std::vector<double> errors;
    for (const auto& sample : model.samples) {
      errors.push_back(squared_error(model, sample, change));
    }
    const double floor = smoothing * mean(errors);
    for (double& error : errors) error = 1 / (error + floor);
    change = weighted_change(model, errors);
  }
  return change;
}

LinearModelSlope slope_of(const LinearModel& model) {
  return slope_at(model, std::vector<double>(model.columns(), 0));
}

}  // namespace bespoke
