#include "bespoke/measure/frechet.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <tuple>

#include "bespoke/tensor/noise.h"
#include "refusal.h"
#include "support.h"

namespace bespoke {
namespace {

constexpr int64_t kPlenty = 1000000;

torch::Tensor numbers(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), torch::kDouble);
}

FeatureStatistics gaussian(const torch::Tensor& mean, const torch::Tensor& covariance) {
  return {mean, covariance, kPlenty};
}

FeatureStatistics centred_gaussian(const torch::Tensor& covariance) {
  return gaussian(torch::zeros({covariance.size(0)}, torch::kDouble), covariance);
}

// A positive definite matrix, and an orthogonal one, of a seed.
torch::Tensor random_covariance(int64_t dimension, uint64_t seed, int64_t rank = 0) {
  const auto factor = normal_noise(seed, 0, dimension, {rank == 0 ? dimension + 5 : rank});
  return torch::mm(factor, factor.t()) / static_cast<double>(factor.size(1));
}

torch::Tensor random_rotation(int64_t dimension, uint64_t seed) {
  return std::get<1>(torch::linalg_eigh(random_covariance(dimension, seed)));
}

FeatureStatistics statistics_in_batches(const torch::Tensor& features, int64_t batch) {
  FeatureAccumulator accumulator;
  for (const auto& part : features.split(batch)) accumulator.add(part);
  return accumulator.statistics();
}

TEST(Frechet, EqualGaussiansAreAtZero) {
  const auto one = gaussian(normal_noise(1, 0, 1, {40})[0], random_covariance(40, 2));
  EXPECT_NEAR(frechet_distance(one, one), 0, 1e-10);
}

// Two halves of a set of normal samples: means differ by 2 d / n, and covariances by d (d + 1) / 2n
// more, to second order.
TEST(Frechet, HalvesOfASetAreApartByChance) {
  constexpr int64_t kDimension = 16, kHalf = 2000;
  FeatureAccumulator first, second, few;
  first.add(normal_noise(1, 0, kHalf, {kDimension}));
  second.add(normal_noise(2, 0, kHalf, {kDimension}));
  few.add(normal_noise(3, 0, kDimension, {kDimension}));
  const double expected =
      (2.0 * kDimension + 0.5 * kDimension * (kDimension + 1)) / static_cast<double>(kHalf);
  EXPECT_NEAR(*sampling_noise(first, second), expected, 0.4 * expected);
  EXPECT_FALSE(sampling_noise(first, few));
  EXPECT_TRUE(are_few_samples(600, 64));
  EXPECT_FALSE(are_few_samples(640, 64));
}

TEST(Frechet, SetsJoinToTheStatisticsOfAll) {
  const auto features = normal_noise(1, 0, 50, {3}) + 4;
  const auto whole = statistics_in_batches(features, 50);
  const auto both = joined(statistics_in_batches(features.slice(0, 0, 20), 20),
                           statistics_in_batches(features.slice(0, 20), 30));
  EXPECT_EQ(both.count, 50);
  EXPECT_LT((both.mean - whole.mean).abs().max().item<double>(), 1e-12);
  EXPECT_LT((both.covariance - whole.covariance).abs().max().item<double>(), 1e-12);
}

TEST(Frechet, DiagonalCovariancesHaveAClosedForm) {
  const auto first = gaussian(numbers({1, -2, 0}), torch::diag(numbers({4, 1, 9})));
  const auto second = gaussian(numbers({0, 1, 0}), torch::diag(numbers({1, 16, 9})));
  // |m|^2 = 1 + 9, and the squared differences of the deviations: 1 + 9 + 0.
  EXPECT_NEAR(frechet_distance(first, second), 20, 1e-12);
}

TEST(Frechet, CommutingCovariancesHaveAClosedForm) {
  const auto basis = random_rotation(12, 3);
  const auto first = normal_noise(4, 0, 1, {12})[0].square() + 0.1;
  const auto second = normal_noise(5, 0, 1, {12})[0].square() + 0.1;
  const auto in_basis = [&](const torch::Tensor& values) {
    return centred_gaussian(torch::mm(basis * values, basis.t()));
  };
  const double expected = (first.sqrt() - second.sqrt()).square().sum().item<double>();
  EXPECT_NEAR(frechet_distance(in_basis(first), in_basis(second)), expected, 1e-12 * 12);
}

TEST(Frechet, TwoDimensionsHaveAClosedFormWithoutCommuting) {
  const auto first = torch::tensor({{2.0, 0.7}, {0.7, 1.0}}, torch::kDouble);
  const auto second = torch::tensor({{0.5, -0.3}, {-0.3, 3.0}}, torch::kDouble);
  const auto product = torch::mm(first, second);
  const double trace = product.trace().item<double>();
  const double determinant = (2.0 * 1.0 - 0.49) * (0.5 * 3.0 - 0.09);
  const double root_trace = std::sqrt(trace + 2 * std::sqrt(determinant));
  const double expected = (2 + 1) + (0.5 + 3) - 2 * root_trace;
  EXPECT_NEAR(frechet_distance(centred_gaussian(first), centred_gaussian(second)), expected, 1e-13);
}

TEST(Frechet, SingularCovariancesAreMeasured) {
  const auto zero = centred_gaussian(torch::zeros({30, 30}, torch::kDouble));
  const auto low = centred_gaussian(random_covariance(30, 6, 5));
  const auto full = centred_gaussian(random_covariance(30, 7));
  const double low_trace = low.covariance.trace().item<double>();
  EXPECT_NEAR(frechet_distance(zero, low), low_trace, 1e-12);
  EXPECT_NEAR(frechet_distance(low, zero), low_trace, 1e-12);
  EXPECT_EQ(frechet_distance(zero, zero), 0);
  // Near zero a square root turns 1e-16 of the covariance into 1e-8.
  EXPECT_NEAR(frechet_distance(low, low), 0, 1e-6);
  EXPECT_NEAR(frechet_distance(low, full), frechet_distance(full, low), 1e-6);
}

TEST(Frechet, AgreesWithTheEigenvaluesOfTheProduct) {
  const int64_t dimension = 512;
  const auto first = random_covariance(dimension, 8), second = random_covariance(dimension, 9);
  const auto values = torch::real(torch::linalg_eigvals(torch::mm(first, second)));
  const double expected = (first.trace() + second.trace()).item<double>() -
                          2 * values.clamp_min(0).sqrt().sum().item<double>();
  const double found = frechet_distance(centred_gaussian(first), centred_gaussian(second));
  EXPECT_NEAR(found, expected, 1e-8 * expected);
}

TEST(Frechet, ScalesWithTheSquareOfTheFeatures) {
  const auto first = gaussian(normal_noise(10, 0, 1, {20})[0], random_covariance(20, 11));
  const auto second = gaussian(normal_noise(12, 0, 1, {20})[0], random_covariance(20, 13));
  const double plain = frechet_distance(first, second);
  for (const double scale : {1e-6, 1e-3, 30.0, 1e8}) {
    const auto scaled = [&](const FeatureStatistics& s) {
      return gaussian(s.mean * scale, s.covariance * scale * scale);
    };
    EXPECT_NEAR(frechet_distance(scaled(first), scaled(second)) / (scale * scale), plain,
                1e-10 * plain);
  }
  EXPECT_NEAR(frechet_distance(second, first), plain, 1e-10 * plain);
}

TEST(Frechet, SamplesConvergeToTheDistanceOfTheirGaussians) {
  const int64_t dimension = 4;
  const auto factor = normal_noise(14, 0, dimension, {dimension});
  const auto shift = numbers({1, 0, -1, 0.5});
  const double expected = frechet_distance(centred_gaussian(torch::eye(dimension, torch::kDouble)),
                                           gaussian(shift, torch::mm(factor, factor.t())));
  double last = 0;
  for (const int64_t count : {1000, 100000}) {
    const auto first = normal_noise(15, 0, count, {dimension});
    const auto second = torch::mm(normal_noise(16, 0, count, {dimension}), factor.t()) + shift;
    const double found =
        frechet_distance(statistics_in_batches(first, 1000), statistics_in_batches(second, 1000));
    last = std::abs(found - expected) / expected;
    EXPECT_LT(last, 10 / std::sqrt(static_cast<double>(count)));
  }
  EXPECT_LT(last, 0.02);
}

TEST(Frechet, StatisticsDoNotDependOnTheBatches) {
  // A mean a thousand deviations from zero, where sums of squares would lose six digits.
  const auto features = normal_noise(17, 0, 500, {16}) + 1000;
  const auto whole = statistics_in_batches(features, 500);
  const auto centred = features - features.mean(0);
  EXPECT_LT(testing::relative_error(whole.covariance, torch::mm(centred.t(), centred) / 499),
            1e-12);
  for (const int64_t batch : {1, 7, 64, 499}) {
    const auto parts = statistics_in_batches(features, batch);
    EXPECT_EQ(parts.count, 500);
    EXPECT_LT(testing::relative_error(parts.mean, whole.mean), 1e-12);
    EXPECT_LT(testing::relative_error(parts.covariance, whole.covariance), 1e-12);
  }
}

TEST(Frechet, RefusesTooFewSamples) {
  FeatureAccumulator accumulator;
  accumulator.add(normal_noise(18, 0, 16, {16}));
  EXPECT_NE(testing::refusal([&] { accumulator.statistics(); }).find("at least 17 samples"),
            std::string::npos);
  accumulator.add(normal_noise(18, 16, 1, {16}));
  EXPECT_EQ(accumulator.statistics().count, 17);
  EXPECT_NE(testing::refusal([] { FeatureAccumulator().statistics(); }), "");
}

TEST(Frechet, RefusesWhatIsNoStatistics) {
  FeatureAccumulator accumulator;
  accumulator.add(torch::zeros({3, 2}));
  EXPECT_NE(testing::refusal([&] { accumulator.add(torch::zeros({3, 4})); }), "");
  EXPECT_NE(testing::refusal([&] { accumulator.add(torch::zeros({3})); }), "");
  const auto good = centred_gaussian(torch::eye(3, torch::kDouble));
  const auto other = centred_gaussian(torch::eye(2, torch::kDouble));
  EXPECT_NE(testing::refusal([&] { frechet_distance(good, other); }), "");
  const auto broken = centred_gaussian(torch::full({3, 3}, NAN, torch::kDouble));
  EXPECT_NE(testing::refusal([&] { frechet_distance(good, broken); }), "");
}

TEST(Frechet, ASquareRootThatIsNoneIsAnError) {
  const auto good = centred_gaussian(torch::eye(3, torch::kDouble));
  const auto negative = centred_gaussian(torch::diag(numbers({1, 1, -1e-4})));
  const auto lopsided = centred_gaussian(
      torch::tensor({{1.0, 0.5, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}}, torch::kDouble));
  for (const auto& bad : {negative, lopsided}) {
    EXPECT_THROW(frechet_distance(good, bad), Error);
    EXPECT_THROW(frechet_distance(bad, good), Error);
  }
}

}  // namespace
}  // namespace bespoke
