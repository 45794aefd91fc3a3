#pragma once

#include <cstddef>
#include <vector>

#include "bespoke/base/matrix.h"

namespace bespoke {

// The space in which sets of samples are compared: features standardised by the model's own samples
// and turned to the axes of their covariance.
class FeatureSpace {
 public:
  // Of the model's own samples, a row each. Features that are the same for all say nothing and are
  // left out. Bad input where all are, or where there are no more samples than features.
  explicit FeatureSpace(const Matrix& features);

  // The features that are left.
  size_t size() const { return places_.size(); }

  // Rows of features there; of their changes, without the centre.
  Matrix of_features(const Matrix& features) const;
  Matrix of_changes(const Matrix& changes) const;

  // What each statistic counts for, where a solver's are near these. With m the mean, C the second
  // moments, v the variances of the model's samples along the axes, u those of the solver's, and
  // s = ((sqrt v + sqrt u) / 2)^2, the sum of the squares of weighted differences is
  //   (|m|^2 + 1/2 sum_ij (C - diag v)_ij^2 / (s_i + s_j)) / size:
  // the Fréchet distance in parts of the total variance, exact where axes are the same.
  std::vector<double> weights(const std::vector<double>& statistics) const;

 private:
  Matrix turned(const Matrix& rows, bool centres) const;

  std::vector<size_t> places_;  // of the features that differ
  std::vector<double> mean_, deviation_;
  Matrix axes_;                    // in rows
  std::vector<double> variances_;  // along them
};

// What sets of samples are compared by, of rows z: their mean and the upper triangle of Z^T Z / N,
// row by row.
std::vector<double> statistics_of(const Matrix& z);

// How they change with some numbers, from how every z changes.
class StatisticsSlope {
 public:
  // Of so many numbers, of rows of so many features, of `count` samples in all.
  StatisticsSlope(size_t numbers, size_t features, size_t count);

  // Takes some of the samples: row k of changes[i] is how row k of z changes with number i.
  void add(const Matrix& z, const std::vector<Matrix>& changes);

  // A column for each number, as statistics_of orders the rows.
  Matrix jacobian() const;

 private:
  size_t features_;
  double count_;
  std::vector<std::vector<double>> means_;  // by number
  std::vector<Matrix> products_;            // sum of z dz^T, by number
};

}  // namespace bespoke
