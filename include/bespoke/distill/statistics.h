#pragma once

#include <cstddef>
#include <cstdint>
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

  // Of the model's samples along the axes.
  const std::vector<double>& variances() const { return variances_; }

  // Rows of features there; of their changes, without the centre. Bad input: as many features as
  // the model's samples have are expected.
  Matrix of_features(const Matrix& features) const;
  Matrix of_changes(const Matrix& changes) const;

 private:
  Matrix turned(const Matrix& rows, bool centres) const;

  size_t features_;
  std::vector<size_t> places_;  // of the features that differ
  std::vector<double> mean_, deviation_;
  Matrix axes_;                    // in rows
  std::vector<double> variances_;  // along them
};

// What sets of samples are compared by, of rows z: their mean and the upper triangle of Z^T Z / N,
// row by row.
std::vector<double> statistics_of(const Matrix& z);

// How the statistics of groups of samples change with some numbers, from how every z changes.
class StatisticsSlope {
 public:
  // Of so many numbers, of rows of so many features, of so many groups.
  StatisticsSlope(size_t numbers, size_t features, size_t groups);

  // Takes some of the samples: row k of changes[i] is how row k of z, which is of groups[k],
  // changes with number i.
  void add(const Matrix& z, const std::vector<Matrix>& changes, const std::vector<size_t>& groups);

  // By the samples taken: a column for each number; in rows group after group, each as
  // statistics_of orders them.
  Matrix jacobian() const;

 private:
  struct Sums {
    double count = 0;
    std::vector<std::vector<double>> means;  // by number
    std::vector<Matrix> products;            // sum of z dz^T, by number
  };

  size_t features_;
  std::vector<Sums> groups_;
};

// What a solver's samples are compared with the model's by: statistics of features in the space of
// the model's, about the model's mean, of each group of samples apart where groups are told.
class Statistics {
 public:
  // Of the model's own samples, a row each, and the group of each, by any numbers; none: all are of
  // one. Bad input: as for FeatureSpace; or there is not a group for every row, or a row alone in
  // its group.
  explicit Statistics(const Matrix& features, const std::vector<int64_t>& groups = {});

  size_t size() const { return wanted_.size(); }
  size_t features() const { return space_.size(); }

  // Of all samples of a solver, in the same order; and the model's own.
  std::vector<double> of(const Matrix& features) const;
  const std::vector<double>& wanted() const { return wanted_; }

  // What each statistic counts for, where a solver's are near these. In a group let m be the mean,
  // C and C* the second moments of the solver's and the model's samples, u and v their variances
  // along the axes and s = ((sqrt u + sqrt v) / 2)^2. The sum of the squares of weighted
  // differences is
  //   (sum_i e_i m_i^2 + 1/2 sum_ij sqrt(e_i e_j) (C - C*)_ij^2 / (s_i + s_j)) / sum_i e_i v_i,
  // of groups the mean, by their sizes. With all e_i = 1 this is the Fréchet distance in parts of
  // the total variance, exact where axes are the same, and with e_i = 1 / v_i all axes count alike.
  // The first hardly sees faint features and the second is ruled by chance in them; here e_i is in
  // between, 1 / sqrt(v_i) by the variances of all samples. A thousandth of the largest variance is
  // the least that v and s count as.
  std::vector<double> weights(const std::vector<double>& found) const;

  // How they change with some numbers: from features of samples first, first + 1, ... and how these
  // change, a matrix for each number. Some of the samples tell it nearly.
  StatisticsSlope slope(size_t numbers) const;
  void add(const Matrix& features, const std::vector<Matrix>& changes, size_t first,
           StatisticsSlope& slope) const;

 private:
  Matrix centred(const Matrix& features, size_t first) const;

  FeatureSpace space_;
  std::vector<size_t> groups_;  // of each sample
  std::vector<size_t> sizes_;   // of each group
  Matrix centres_;              // of each group, in the space
  std::vector<double> wanted_;
};

}  // namespace bespoke
