#include "bespoke/distill/statistics.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

constexpr double kLeastSpread = 1e-9;  // of a feature's size: less is the rounding of a constant

struct Spread {
  double mean = 0, deviation = 0;
};

Spread spread_of(const Matrix& features, size_t place) {
  const auto count = static_cast<double>(features.rows);
  double sum = 0, largest = 0, squares = 0;
  for (size_t k = 0; k < features.rows; ++k) {
    sum += features(k, place);
    largest = std::max(largest, std::abs(features(k, place)));
  }
  const double mean = sum / count;
  for (size_t k = 0; k < features.rows; ++k) {
    squares += (features(k, place) - mean) * (features(k, place) - mean);
  }
  const double deviation = std::sqrt(squares / count);
  return {mean, deviation > kLeastSpread * largest ? deviation : 0};
}

// Z^T Z / rows.
Matrix second_moments(const Matrix& z) {
  Matrix result(z.columns, z.columns);
  for (size_t k = 0; k < z.rows; ++k) {
    for (size_t i = 0; i < z.columns; ++i) {
      for (size_t j = 0; j <= i; ++j) result(i, j) += z(k, i) * z(k, j);
    }
  }
  for (size_t i = 0; i < z.columns; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      result(i, j) /= static_cast<double>(z.rows);
      result(j, i) = result(i, j);
    }
  }
  return result;
}

// What one rotation of Jacobi's method does to rows p and q of a matrix.
void rotate_rows(Matrix& matrix, size_t p, size_t q, double cosine, double sine) {
  for (size_t k = 0; k < matrix.columns; ++k) {
    const double a = matrix(p, k), b = matrix(q, k);
    matrix(p, k) = cosine * a - sine * b;
    matrix(q, k) = sine * a + cosine * b;
  }
}

// Eigenvalues of a symmetric matrix, and eigenvectors as the rows of `vectors`: by Jacobi's method.
std::vector<double> eigenvalues(Matrix matrix, Matrix& vectors) {
  constexpr int kMostSweeps = 30;
  constexpr double kSmall = 1e-14;  // of the trace: what is left beside the diagonal
  const size_t n = matrix.rows;
  vectors = Matrix(n, n);
  double trace = 0;
  for (size_t i = 0; i < n; ++i) {
    vectors(i, i) = 1;
    trace += matrix(i, i);
  }
  bool is_diagonal = false;
  for (int sweep = 0; sweep < kMostSweeps && !is_diagonal; ++sweep) {
    is_diagonal = true;
    for (size_t p = 0; p + 1 < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (std::abs(matrix(p, q)) <= kSmall * trace) continue;
        is_diagonal = false;
        const double angle = 0.5 * std::atan2(2 * matrix(p, q), matrix(q, q) - matrix(p, p));
        const double cosine = std::cos(angle), sine = std::sin(angle);
        rotate_rows(matrix, p, q, cosine, sine);
        for (size_t k = 0; k < n; ++k) {
          const double a = matrix(k, p), b = matrix(k, q);
          matrix(k, p) = cosine * a - sine * b;
          matrix(k, q) = sine * a + cosine * b;
        }
        rotate_rows(vectors, p, q, cosine, sine);
      }
    }
  }
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(std::max(matrix(i, i), 0.0));
  return values;
}

void require_more_samples_than(size_t features, size_t samples) {
  if (samples > features) return;
  throw bad_input(
      "the statistics of {} features need at least {} samples, found {}; take more samples to "
      "match "
      "them on, or fewer features",
      features, features + 1, samples);
}

}  // namespace

FeatureSpace::FeatureSpace(const Matrix& features) {
  for (size_t place = 0; place < features.columns; ++place) {
    const Spread spread = spread_of(features, place);
    if (spread.deviation == 0) continue;
    places_.push_back(place);
    mean_.push_back(spread.mean);
    deviation_.push_back(spread.deviation);
  }
  if (places_.empty()) {
    throw bad_input(
        "all {} features are the same for every one of {} samples, so they cannot tell solvers "
        "apart; do they expect another range of values?",
        features.columns, features.rows);
  }
  require_more_samples_than(size(), features.rows);
  axes_ = Matrix(size(), size());
  for (size_t i = 0; i < size(); ++i) axes_(i, i) = 1;
  const Matrix moments = second_moments(turned(features, true));
  variances_ = eigenvalues(moments, axes_);
}

Matrix FeatureSpace::of_features(const Matrix& features) const { return turned(features, true); }

Matrix FeatureSpace::of_changes(const Matrix& changes) const { return turned(changes, false); }

Matrix FeatureSpace::turned(const Matrix& rows, bool centres) const {
  Matrix z(rows.rows, size());
  std::vector<double> standard(size());
  for (size_t k = 0; k < rows.rows; ++k) {
    for (size_t i = 0; i < size(); ++i) {
      standard[i] = (rows(k, places_[i]) - (centres ? mean_[i] : 0)) / deviation_[i];
    }
    for (size_t i = 0; i < size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < size(); ++j) sum += axes_(i, j) * standard[j];
      z(k, i) = sum;
    }
  }
  return z;
}

std::vector<double> FeatureSpace::weights(const std::vector<double>& statistics) const {
  constexpr double kLeastVariance = 1e-6;
  // ((sqrt v + sqrt u) / 2)^2 of the variances v and u of both sets along an axis.
  std::vector<double> between;
  size_t place = size();
  for (size_t i = 0; i < size(); place += size() - i, ++i) {
    const double variance = statistics[place] - statistics[i] * statistics[i];
    const double sum = std::sqrt(variances_[i]) + std::sqrt(std::max(variance, 0.0));
    between.push_back(std::max(sum * sum / 4, kLeastVariance));
  }
  const auto total = static_cast<double>(size());
  std::vector<double> weights(size(), 1 / std::sqrt(total));
  for (size_t i = 0; i < size(); ++i) {
    for (size_t j = i; j < size(); ++j) {
      weights.push_back(std::sqrt((i == j ? 0.5 : 1) / (between[i] + between[j]) / total));
    }
  }
  return weights;
}

std::vector<double> statistics_of(const Matrix& z) {
  std::vector<double> statistics(z.columns, 0);
  for (size_t k = 0; k < z.rows; ++k) {
    for (size_t i = 0; i < z.columns; ++i) statistics[i] += z(k, i);
  }
  for (double& value : statistics) value /= static_cast<double>(z.rows);
  const Matrix moments = second_moments(z);
  for (size_t i = 0; i < z.columns; ++i) {
    for (size_t j = i; j < z.columns; ++j) statistics.push_back(moments(i, j));
  }
  return statistics;
}

StatisticsSlope::StatisticsSlope(size_t numbers, size_t features, size_t count)
    : features_(features),
      count_(static_cast<double>(count)),
      means_(numbers, std::vector<double>(features, 0)),
      products_(numbers, Matrix(features, features)) {}

void StatisticsSlope::add(const Matrix& z, const std::vector<Matrix>& changes) {
  for (size_t number = 0; number < changes.size(); ++number) {
    const Matrix& change = changes[number];
    Matrix& products = products_[number];
    for (size_t k = 0; k < z.rows; ++k) {
      for (size_t j = 0; j < features_; ++j) means_[number][j] += change(k, j);
      for (size_t i = 0; i < features_; ++i) {
        for (size_t j = 0; j < features_; ++j) products(i, j) += z(k, i) * change(k, j);
      }
    }
  }
}

Matrix StatisticsSlope::jacobian() const {
  Matrix jacobian(features_ + features_ * (features_ + 1) / 2, means_.size());
  for (size_t number = 0; number < means_.size(); ++number) {
    size_t row = 0;
    for (const double sum : means_[number]) jacobian(row++, number) = sum / count_;
    const Matrix& products = products_[number];
    for (size_t i = 0; i < features_; ++i) {
      for (size_t j = i; j < features_; ++j) {
        jacobian(row++, number) = (products(i, j) + products(j, i)) / count_;
      }
    }
  }
  return jacobian;
}

}  // namespace bespoke
