#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/base/matrix.h"

namespace bespoke {

// Features of samples for whoever has no network of them: how sharp a sample is at several scales,
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

  size_t size() const;

  // A row for each of some samples, their numbers one sample after another.
  Matrix operator()(const std::vector<double>& samples) const;

  // What they are made of, for whoever computes them otherwise: the sample as it is seen, filters
  // [channels, 3 or 1 high, 3 wide] one number after another, how many scales they answer at, and
  // what is added before a logarithm.
  struct Plane {
    int64_t channels, height, width;
  };
  static constexpr int64_t kMostChannels = 8;
  static constexpr double kFaint = 1e-3;  // fainter than anything seen
  const Plane& plane() const { return plane_; }
  const std::vector<std::vector<double>>& filters() const { return filters_; }
  int64_t scales() const { return scales_; }

 private:
  void add_filters(std::vector<double> sample, double* features) const;
  static std::vector<double> halved(const std::vector<double>& sample, Plane& plane);

  Plane plane_;
  int64_t scales_ = 0;
  std::vector<std::vector<double>> filters_;
};

}  // namespace bespoke
