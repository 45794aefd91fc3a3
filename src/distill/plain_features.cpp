#include "bespoke/distill/plain_features.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/base/random.h"

namespace bespoke {

namespace {

constexpr int64_t kFilters = 16, kReach = 3, kScales = 3;

// A filter of zero mean and unit length, always the same for an index.
std::vector<double> random_filter(uint64_t index, int64_t size) {
  constexpr uint64_t kSeed = 54;
  std::vector<double> filter(static_cast<size_t>(size));
  fill_normal(kSeed, index, filter.data(), size);
  double mean = 0, squares = 0;
  for (const double value : filter) mean += value / static_cast<double>(size);
  for (double& value : filter) {
    value -= mean;
    squares += value * value;
  }
  for (double& value : filter) value /= std::sqrt(squares);
  return filter;
}

}  // namespace

PlainFeatures::PlainFeatures(const std::vector<int64_t>& sample_shape) {
  if (sample_shape.size() == 3) {
    plane_ = {sample_shape[0], sample_shape[1], sample_shape[2]};
  } else if (sample_shape.size() == 2) {
    plane_ = {sample_shape[0], 1, sample_shape[1]};
  } else {
    int64_t size = 1;
    for (const int64_t length : sample_shape) size *= length;
    plane_ = {1, 1, size};
  }
  const int64_t rows = plane_.height == 1 ? 1 : kReach;
  int64_t height = plane_.height, width = plane_.width;
  while (scales_ < kScales && height >= rows && width >= kReach) {
    ++scales_;
    height = height == 1 ? 1 : height / 2;
    width /= 2;
  }
  for (int64_t k = 0; k < kFilters; ++k) {
    filters_.push_back(random_filter(static_cast<uint64_t>(k), plane_.channels * rows * kReach));
  }
}

size_t PlainFeatures::size() const {
  return static_cast<size_t>(scales_ * kFilters + 2 * std::min(plane_.channels, kMostChannels));
}

// The means over blocks of 2, or pairs along a line; what does not fill a block is left out.
std::vector<double> PlainFeatures::halved(const std::vector<double>& sample, Plane& plane) {
  const int64_t rows = plane.height == 1 ? 1 : 2;
  const Plane half = {plane.channels, plane.height / rows, plane.width / 2};
  std::vector<double> result;
  for (int64_t c = 0; c < half.channels; ++c) {
    for (int64_t y = 0; y < half.height; ++y) {
      for (int64_t x = 0; x < half.width; ++x) {
        double sum = 0;
        for (int64_t row = y * rows; row < (y + 1) * rows; ++row) {
          const int64_t at = (c * plane.height + row) * plane.width + 2 * x;
          sum += sample[static_cast<size_t>(at)] + sample[static_cast<size_t>(at + 1)];
        }
        result.push_back(sum / static_cast<double>(2 * rows));
      }
    }
  }
  plane = half;
  return result;
}

// What each filter answers at each scale.
void PlainFeatures::add_filters(std::vector<double> sample, double* features) const {
  Plane plane = plane_;
  const int64_t rows = plane.height == 1 ? 1 : kReach;
  std::vector<double> answers;
  for (int64_t scale = 0; scale < scales_; ++scale) {
    if (scale > 0) sample = halved(sample, plane);
    const int64_t height = plane.height - rows + 1, width = plane.width - kReach + 1;
    for (const std::vector<double>& filter : filters_) {
      answers.assign(static_cast<size_t>(height * width), 0);
      const double* weight = filter.data();
      for (int64_t c = 0; c < plane.channels; ++c) {
        for (int64_t tap = 0; tap < rows * kReach; ++tap, ++weight) {
          for (int64_t y = 0; y < height; ++y) {
            const double* from =
                sample.data() + (c * plane.height + y + tap / kReach) * plane.width + tap % kReach;
            double* to = answers.data() + y * width;
            for (int64_t x = 0; x < width; ++x) to[x] += *weight * from[x];
          }
        }
      }
      double sum = 0;
      for (const double answer : answers) sum += std::abs(answer);
      *features++ = std::log(sum / static_cast<double>(answers.size()) + kFaint);
    }
  }
}

Matrix PlainFeatures::operator()(const std::vector<double>& samples) const {
  const int64_t pixels = plane_.height * plane_.width, size = plane_.channels * pixels;
  const int64_t count = static_cast<int64_t>(samples.size()) / size;
  Matrix features(static_cast<size_t>(count), this->size());
  for (int64_t k = 0; k < count; ++k) {
    const auto begin = samples.begin() + k * size;
    double* row = &features(static_cast<size_t>(k), 0);
    add_filters({begin, begin + size}, row);
    row += scales_ * kFilters;
    for (int64_t c = 0; c < std::min(plane_.channels, kMostChannels); ++c) {
      double mean = 0, squares = 0;
      const auto channel = begin + c * pixels;
      for (auto at = channel; at != channel + pixels; ++at) mean += *at;
      mean /= static_cast<double>(pixels);
      for (auto at = channel; at != channel + pixels; ++at) squares += (*at - mean) * (*at - mean);
      *row++ = mean;
      *row++ = std::log(std::sqrt(squares / static_cast<double>(pixels)) + kFaint);
    }
  }
  return features;
}

}  // namespace bespoke
