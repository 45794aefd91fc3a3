#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace bespoke {

// The mean and covariance of features, in float64 on the CPU: all that the Fréchet distance knows
// of a set of samples.
struct FeatureStatistics {
  torch::Tensor mean;        // [d]
  torch::Tensor covariance;  // [d, d], unbiased: over count - 1
  int64_t count = 0;         // samples; more than d
};

// Statistics of features that come in batches. Each batch is centred on its own mean and merged by
// Chan's update, so a mean far from zero costs no digits and the batching none that matter.
class FeatureAccumulator {
 public:
  // features: [batch, d], any floating type, on any device. Bad input: another rank or another d.
  void add(const torch::Tensor& features);
  // What another accumulator has, given as its tensors: by another process, for one.
  void add(const std::vector<torch::Tensor>& tensors);
  // All that it has, for add(): the mean [d], the sum of squares about it [d, d] and the count [1].
  std::vector<torch::Tensor> tensors() const;
  // How many samples were added.
  int64_t count() const { return count_; }
  // Whether they are more than their features, as many as statistics() needs.
  bool has_covariance() const { return count_ > 0 && count_ > mean_.size(0); }
  // Bad input where there are too few for a covariance, see require_enough_samples.
  FeatureStatistics statistics() const;

 private:
  void add(const torch::Tensor& mean, const torch::Tensor& scatter, int64_t count);

  torch::Tensor mean_, scatter_;  // scatter: sum of (f - mean)(f - mean)^T
  int64_t count_ = 0;
};

// A covariance of d features has full rank from d + 1 samples on; with fewer the distance would be
// a number about their scarcity. Bad input that says how many are needed; `whose` they are.
void require_enough_samples(int64_t count, int64_t dimension, const std::string& whose);

// Of two sets together.
FeatureStatistics joined(const FeatureStatistics& first, const FeatureStatistics& second);

// Whether so many samples are too few for a distance over so many features to be more than their
// scarcity: less than ten for each.
bool are_few_samples(int64_t count, int64_t dimension);

// How far a square root R of A may be off for a distance to be made of it, as |R R - A| / |A|
// (Frobenius).
constexpr double kRootBound = 1e-9;
// The distance of Fréchet (Wasserstein-2, squared) between the Gaussians with these moments,
//   |m1 - m2|^2 + tr(C1 + C2 - 2 (C1^1/2 C2 C1^1/2)^1/2).
// Both square roots are checked: where one is off by more than kRootBound the result is an error
// rather than a figure. Eigenvalues that rounding made negative count as zero.
double frechet_distance(const FeatureStatistics& first, const FeatureStatistics& second);

// What chance alone makes of a distance: that of two halves of one set, none where a half is too
// small for a covariance.
std::optional<double> sampling_noise(const FeatureAccumulator& first,
                                     const FeatureAccumulator& second);

// Fréchet distances from one set of samples to many: its square root is taken once.
class FrechetDistance {
 public:
  // Takes that root. Bad input for statistics that are not finite or of too few samples.
  explicit FrechetDistance(FeatureStatistics origin);
  // The distance to another set, 0 or more. Bad input likewise, and for another number of features.
  double to(const FeatureStatistics& other) const;

 private:
  FeatureStatistics origin_;
  torch::Tensor root_;  // of the covariance
};

}  // namespace bespoke
