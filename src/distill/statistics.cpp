#include "bespoke/distill/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>

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

// A mean and the upper triangle of a covariance.
size_t statistics_count(size_t features) { return features + features * (features + 1) / 2; }

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

FeatureSpace::FeatureSpace(const Matrix& features) : features_(features.columns) {
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
  if (rows.columns != features_) {
    throw bad_input("the features are {} numbers of a sample, of the model's own samples {}",
                    rows.columns, features_);
  }
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

StatisticsSlope::StatisticsSlope(size_t numbers, size_t features, size_t groups)
    : features_(features), groups_(groups) {
  for (Sums& sums : groups_) {
    sums.means.assign(numbers, std::vector<double>(features, 0));
    sums.products.assign(numbers, Matrix(features, features));
  }
}

void StatisticsSlope::add(const Matrix& z, const std::vector<Matrix>& changes,
                          const std::vector<size_t>& groups) {
  for (const size_t group : groups) ++groups_[group].count;
  for (size_t number = 0; number < changes.size(); ++number) {
    const Matrix& change = changes[number];
    for (size_t k = 0; k < z.rows; ++k) {
      Sums& sums = groups_[groups[k]];
      Matrix& products = sums.products[number];
      for (size_t j = 0; j < features_; ++j) sums.means[number][j] += change(k, j);
      for (size_t i = 0; i < features_; ++i) {
        for (size_t j = 0; j < features_; ++j) products(i, j) += z(k, i) * change(k, j);
      }
    }
  }
}

Matrix StatisticsSlope::jacobian() const {
  const size_t numbers = groups_.front().means.size();
  const size_t rows = statistics_count(features_);
  Matrix jacobian(groups_.size() * rows, numbers);
  for (size_t number = 0; number < numbers; ++number) {
    size_t row = 0;
    for (const Sums& sums : groups_) {
      const double count = std::max(sums.count, 1.0);
      for (const double sum : sums.means[number]) jacobian(row++, number) = sum / count;
      const Matrix& products = sums.products[number];
      for (size_t i = 0; i < features_; ++i) {
        for (size_t j = i; j < features_; ++j) {
          jacobian(row++, number) = (products(i, j) + products(j, i)) / count;
        }
      }
    }
  }
  return jacobian;
}

namespace {

// Numbered 0, 1, ... in the order of their numbers.
std::vector<size_t> numbered(const std::vector<int64_t>& groups, size_t samples) {
  if (groups.empty()) return std::vector<size_t>(samples, 0);
  if (groups.size() != samples) {
    throw bad_input("{} samples have {} groups; every sample is of one", samples, groups.size());
  }
  std::map<int64_t, size_t> numbers;
  for (const int64_t group : groups) numbers.emplace(group, 0);
  size_t next = 0;
  for (auto& [group, number] : numbers) number = next++;
  std::vector<size_t> result;
  for (const int64_t group : groups) result.push_back(numbers.at(group));
  return result;
}

std::vector<size_t> sizes_of(const std::vector<size_t>& groups) {
  std::vector<size_t> sizes(*std::max_element(groups.begin(), groups.end()) + 1, 0);
  for (const size_t group : groups) ++sizes[group];
  if (*std::min_element(sizes.begin(), sizes.end()) < 2) {
    throw bad_input(
        "a group of one sample has no statistics; take more samples to match them on, or fewer "
        "groups than {}",
        sizes.size());
  }
  return sizes;
}

// The rows of a group.
Matrix rows_of(const Matrix& z, const std::vector<size_t>& groups, size_t group) {
  Matrix rows(0, z.columns);
  for (size_t k = 0; k < z.rows; ++k) {
    if (groups[k] != group) continue;
    const auto row = z.values.begin() + static_cast<std::ptrdiff_t>(k * z.columns);
    rows.values.insert(rows.values.end(), row, row + static_cast<std::ptrdiff_t>(z.columns));
    ++rows.rows;
  }
  return rows;
}

// The variances along each axis, from the statistics that begin at this place.
std::vector<double> variances_at(const std::vector<double>& statistics, size_t begin, size_t size) {
  std::vector<double> variances;
  size_t place = begin + size;
  for (size_t i = 0; i < size; place += size - i, ++i) {
    const double mean = statistics[begin + i];
    variances.push_back(std::max(statistics[place] - mean * mean, 0.0));
  }
  return variances;
}

}  // namespace

Statistics::Statistics(const Matrix& features, const std::vector<int64_t>& groups)
    : space_(features),
      groups_(numbered(groups, features.rows)),
      sizes_(sizes_of(groups_)),
      centres_(sizes_.size(), space_.size()) {
  const Matrix z = space_.of_features(features);
  for (size_t k = 0; k < z.rows; ++k) {
    const size_t group = groups_[k];
    for (size_t i = 0; i < z.columns; ++i) {
      centres_(group, i) += z(k, i) / static_cast<double>(sizes_[group]);
    }
  }
  wanted_ = of(features);
}

// Of samples first, first + 1, ..., each about the mean of its group.
Matrix Statistics::centred(const Matrix& features, size_t first) const {
  Matrix z = space_.of_features(features);
  for (size_t k = 0; k < z.rows; ++k) {
    for (size_t i = 0; i < z.columns; ++i) z(k, i) -= centres_(groups_[first + k], i);
  }
  return z;
}

std::vector<double> Statistics::of(const Matrix& features) const {
  const Matrix z = centred(features, 0);
  if (sizes_.size() == 1) return statistics_of(z);
  std::vector<double> all;
  for (size_t group = 0; group < sizes_.size(); ++group) {
    const std::vector<double> of_group = statistics_of(rows_of(z, groups_, group));
    all.insert(all.end(), of_group.begin(), of_group.end());
  }
  return all;
}

std::vector<double> Statistics::weights(const std::vector<double>& statistics) const {
  constexpr double kLeast = 1e-3;  // of the largest variance
  const size_t size = features(), count = statistics_count(size);
  const std::vector<double>& along = space_.variances();
  const double least = kLeast * *std::max_element(along.begin(), along.end());
  std::vector<double> evenness, weights;  // e of the axes
  double total = 0;
  for (const double variance : along) {
    evenness.push_back(1 / std::sqrt(std::max(variance, least)));
    total += evenness.back() * variance;
  }
  for (size_t group = 0; group < sizes_.size(); ++group) {
    const std::vector<double> mine = variances_at(statistics, group * count, size);
    const std::vector<double> model = variances_at(wanted_, group * count, size);
    std::vector<double> between;
    for (size_t i = 0; i < size; ++i) {
      const double sum = std::sqrt(mine[i]) + std::sqrt(model[i]);
      between.push_back(std::max(sum * sum / 4, least));
    }
    const double share = static_cast<double>(sizes_[group]) / static_cast<double>(groups_.size());
    const double scale = share / total;
    for (const double e : evenness) weights.push_back(std::sqrt(scale * e));
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = i; j < size; ++j) {
        const double e = std::sqrt(evenness[i] * evenness[j]);
        const double twice = i == j ? 1 : 2;  // the other triangle
        weights.push_back(std::sqrt(scale * e * twice / 2 / (between[i] + between[j])));
      }
    }
  }
  return weights;
}

StatisticsSlope Statistics::slope(size_t numbers) const {
  return StatisticsSlope(numbers, features(), sizes_.size());
}

void Statistics::add(const Matrix& features, const std::vector<Matrix>& changes, size_t first,
                     StatisticsSlope& slope) const {
  std::vector<Matrix> turned;
  for (const Matrix& change : changes) turned.push_back(space_.of_changes(change));
  const auto begin = groups_.begin() + static_cast<std::ptrdiff_t>(first);
  slope.add(centred(features, first), turned,
            {begin, begin + static_cast<std::ptrdiff_t>(features.rows)});
}

}  // namespace bespoke
