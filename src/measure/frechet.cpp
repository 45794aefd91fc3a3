#include "bespoke/measure/frechet.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

void check_statistics(const FeatureStatistics& statistics) {
  const auto& mean = statistics.mean;
  const auto& covariance = statistics.covariance;
  if (mean.dim() != 1 || covariance.dim() != 2 || covariance.size(0) != mean.size(0) ||
      covariance.size(1) != mean.size(0)) {
    throw bad_input("a mean of shape {} and a covariance of shape {} do not belong together",
                    fmt::join(mean.sizes(), "x"), fmt::join(covariance.sizes(), "x"));
  }
  if (!torch::isfinite(mean).all().item<bool>() ||
      !torch::isfinite(covariance).all().item<bool>()) {
    throw bad_input("the statistics of the features are not finite numbers; are the features?");
  }
  require_enough_samples(statistics.count, mean.size(0), "features");
}

double norm_of(const torch::Tensor& matrix) { return matrix.square().sum().sqrt().item<double>(); }

// R with R R = matrix, for a matrix that is symmetric and not negative.
torch::Tensor checked_square_root(const torch::Tensor& matrix) {
  const double norm = norm_of(matrix);
  if (norm == 0) return matrix;
  // Exactly symmetric, since the decomposition reads one triangle only.
  const torch::Tensor symmetric = (matrix + matrix.t()) / 2;
  const auto [values, vectors] = torch::linalg_eigh(symmetric);
  torch::Tensor root = torch::mm(vectors * values.clamp_min(0).sqrt(), vectors.t());
  const double residual = norm_of(torch::mm(root, root) - matrix) / norm;
  if (!(residual <= kRootBound)) {
    throw Error(ErrorKind::failed,
                fmt::format("the square root of a {} x {} covariance is off by {:.1e} of it, more "
                            "than the {:.0e} a Fréchet distance can be trusted with; are the "
                            "features of very different scales, or not those of real samples?",
                            matrix.size(0), matrix.size(1), residual, kRootBound));
  }
  return root;
}

}  // namespace

void require_enough_samples(int64_t count, int64_t dimension, const std::string& whose) {
  if (count > dimension) return;
  throw bad_input(
      "{}: a Fréchet distance over {} features needs at least {} samples, found {}; use more "
      "samples, or an extractor with fewer features",
      whose, dimension, dimension + 1, count);
}

void FeatureAccumulator::add(const torch::Tensor& features) {
  if (features.dim() != 2) {
    throw bad_input("features of shape {}, expected samples x features",
                    fmt::join(features.sizes(), "x"));
  }
  if (features.size(0) == 0) return;
  if (count_ > 0 && features.size(1) != mean_.size(0)) {
    throw bad_input("the extractor made {} features of a sample after {} of those before",
                    features.size(1), mean_.size(0));
  }
  const torch::NoGradGuard no_grad;
  const torch::Tensor wide = features.detach().to(torch::kCPU, torch::kDouble);
  const torch::Tensor mean = wide.mean(0);
  const torch::Tensor centred = wide - mean;
  add(mean, torch::mm(centred.t(), centred), wide.size(0));
}

void FeatureAccumulator::add(const torch::Tensor& mean, const torch::Tensor& scatter,
                             int64_t count) {
  const auto before = static_cast<double>(count_), added = static_cast<double>(count);
  if (count_ == 0) {
    mean_ = mean.clone();  // what is added later must not change the caller's
    scatter_ = scatter.clone();
  } else {
    const torch::Tensor shift = mean - mean_;
    scatter_ += scatter + torch::outer(shift, shift) * (before * added / (before + added));
    mean_ += shift * (added / (before + added));
  }
  count_ += count;
}

std::vector<torch::Tensor> FeatureAccumulator::tensors() const {
  if (count_ == 0) return {torch::empty({0}), torch::empty({0}), torch::tensor({int64_t{0}})};
  return {mean_, scatter_, torch::tensor({count_})};
}

void FeatureAccumulator::add(const std::vector<torch::Tensor>& tensors) {
  const auto count = tensors[2].item<int64_t>();
  if (count > 0) add(tensors[0], tensors[1], count);
}

FeatureStatistics FeatureAccumulator::statistics() const {
  require_enough_samples(count_, count_ == 0 ? 1 : mean_.size(0), "features");
  return {mean_.clone(), scatter_ / static_cast<double>(count_ - 1), count_};
}

FeatureStatistics joined(const FeatureStatistics& first, const FeatureStatistics& second) {
  FeatureAccumulator both;
  for (const FeatureStatistics* one : {&first, &second}) {
    const auto degrees = static_cast<double>(one->count - 1);
    both.add({one->mean, one->covariance * degrees, torch::tensor({one->count})});
  }
  return both.statistics();
}

bool are_few_samples(int64_t count, int64_t dimension) {
  constexpr int64_t kEnough = 10;  // samples a feature
  return count < kEnough * dimension;
}

std::optional<double> sampling_noise(const FeatureAccumulator& first,
                                     const FeatureAccumulator& second) {
  if (!first.has_covariance() || !second.has_covariance()) return std::nullopt;
  return frechet_distance(first.statistics(), second.statistics());
}

FrechetDistance::FrechetDistance(FeatureStatistics origin) : origin_(std::move(origin)) {
  check_statistics(origin_);
  root_ = checked_square_root(origin_.covariance);
}

double FrechetDistance::to(const FeatureStatistics& other) const {
  check_statistics(other);
  if (other.mean.sizes() != origin_.mean.sizes()) {
    throw bad_input("statistics of {} features have no distance to statistics of {}",
                    other.mean.size(0), origin_.mean.size(0));
  }
  const torch::Tensor cross = torch::mm(torch::mm(root_, other.covariance), root_);
  const double spread = (origin_.covariance.trace() + other.covariance.trace()).item<double>();
  const double shared = checked_square_root(cross).trace().item<double>();
  const double between = (origin_.mean - other.mean).square().sum().item<double>();
  // What rounding takes below zero is zero: it is a squared distance.
  return between + std::max(0.0, spread - 2 * shared);
}

double frechet_distance(const FeatureStatistics& first, const FeatureStatistics& second) {
  return FrechetDistance(first).to(second);
}

}  // namespace bespoke
