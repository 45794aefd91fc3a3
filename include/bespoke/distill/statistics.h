#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bespoke/base/matrix.h"

namespace bespoke {

// The space in which sets of samples are compared: features standardised by the reference samples
// and turned to the axes of their covariance.
class FeatureSpace {
 public:
  // The space of the reference samples, given as a row of features each. Features that are the same
  // for all say nothing and are left out. Bad input where all are, or where there are no more
  // samples than features.
  explicit FeatureSpace(const Matrix& features);

  // How many features are left.
  size_t size() const { return places_.size(); }

  // The variances of the reference samples along the axes.
  const std::vector<double>& variances() const { return variances_; }

  // Takes rows of features into this space; changes of features are taken there without the centre.
  // Another number of features than the reference samples have is bad input.
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
  // For so many numbers that change, rows of so many features, and so many groups.
  StatisticsSlope(size_t numbers, size_t features, size_t groups);

  // Adds some of the samples: row k of changes[i] is how row k of z, which is of groups[k],
  // changes with number i.
  void add(const Matrix& z, const std::vector<Matrix>& changes, const std::vector<size_t>& groups);

  // How the statistics change by the samples added: a column for each number, and the groups one
  // after another in rows, each as statistics_of orders it.
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

// The statistics by which a solver's samples are compared with the reference samples: those of
// features in the space of the reference, about its mean, of each group apart where there are
// groups.
class Statistics {
 public:
  // Statistics against the reference samples, given as a row of features each, and the group of
  // each, as any numbers; none: all are of one group. Bad input: as for FeatureSpace; or there is
  // not a group for every row, or a row is alone in its group.
  explicit Statistics(const Matrix& features, const std::vector<int64_t>& groups = {});

  size_t size() const { return wanted_.size(); }
  size_t features() const { return space_.size(); }

  // The statistics of all samples of a solver, in the same order; and those of the reference.
  std::vector<double> of(const Matrix& features) const;
  const std::vector<double>& wanted() const { return wanted_; }

  // What each statistic counts for, where a solver's are near these. In one group let m be the
  // mean, C and C* the second moments of the solver's and the model's samples, u and v their
  // variances along the axes and s = ((sqrt u + sqrt v) / 2)^2. The sum of the squares of weighted
  // differences is
  //   (sum_i e_i m_i^2 + 1/2 sum_ij sqrt(e_i e_j) (C - C*)_ij^2 / (s_i + s_j)) / sum_i e_i v_i,
  // of groups the mean, by their sizes. With all e_i = 1 this is the Fréchet distance in parts of
  // the total variance, exact where axes are the same, and with e_i = 1 / v_i all axes count alike.
  // The first hardly sees faint features and the second is ruled by chance in them; here e_i is in
  // between, 1 / sqrt(v_i) by the variances of all samples. A thousandth of the largest variance is
  // the least that v and s count as.
  std::vector<double> weights(const std::vector<double>& statistics) const;

  // How the statistics change with some numbers, from features of samples first, first + 1, ... and
  // how these change, a matrix for each number. Some of the samples are enough to estimate it.
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
