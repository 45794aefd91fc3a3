#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/base/matrix.h"

namespace bespoke {

// Features of samples that need no network: how sharp a sample is at several scales,
// how bright and how contrasted. Of samples [count, channels, height, width] or [count, channels,
// length]
//   - logarithms of the mean magnitude of what each of 16 fixed random filters of zero mean, 3 wide
//     and over all channels, answers: of the sample, and of its means over blocks of 2 and 4, as
//     far as the sample is large enough;
//   - the mean of each channel, and the logarithm of its deviation.
// Where there are more than 8 channels the first 8 are measured one by one. Other shapes are taken
// as one channel of a line.
class PlainFeatures {
 public:
  // The shape of a sample, without the count.
  explicit PlainFeatures(const std::vector<int64_t>& sample_shape);

  // How many features a sample has.
  size_t size() const;

  // Computes a row of features for each of some samples, given as their numbers one sample after
  // another.
  Matrix operator()(const std::vector<double>& samples) const;

  // What follows is for programs that compute the features otherwise.

  // The shape that a sample is seen in.
  struct Plane {
    int64_t channels;  // how many images or signals it consists of
    int64_t height;    // 1 for a line
    int64_t width;     // the length of a line
  };
  // How many channels are measured one by one, the first ones.
  static constexpr int64_t kMostChannels = 8;
  // What is added before a logarithm: it is fainter than anything seen.
  static constexpr double kFaint = 1e-3;
  // The shape that samples are seen in.
  const Plane& plane() const { return plane_; }
  // The filters, [channels, 3 or 1 high, 3 wide] one number after another.
  const std::vector<std::vector<double>>& filters() const { return filters_; }
  // How many scales the filters answer at.
  int64_t scales() const { return scales_; }

 private:
  void add_filters(std::vector<double> sample, double* features) const;
  static std::vector<double> halved(const std::vector<double>& sample, Plane& plane);

  Plane plane_;
  int64_t scales_ = 0;
  std::vector<std::vector<double>> filters_;
};

}  // namespace bespoke
