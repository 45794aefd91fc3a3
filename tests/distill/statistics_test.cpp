// What sets of samples are compared by, against closed forms and differences.

#include "bespoke/distill/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/distill/coefficients.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/plain_features.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

using testing::PlainProblem;

Matrix normal_rows(size_t rows, size_t columns, uint64_t seed) {
  Matrix matrix(rows, columns);
  fill_normal(seed, 0, matrix.values.data(), static_cast<int64_t>(matrix.values.size()));
  return matrix;
}

// The squared distance of a set from the model's samples.
double distance(const Statistics& statistics, const Matrix& solver) {
  const auto found = statistics.of(solver), weights = statistics.weights(found);
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    sum += std::pow(weights[i] * (found[i] - statistics.wanted()[i]), 2);
  }
  return sum;
}

TEST(FeatureSpace, HasUncorrelatedAxesOfStandardisedFeatures) {
  Matrix features = normal_rows(400, 3, 1);
  for (size_t k = 0; k < features.rows; ++k) {
    features(k, 1) = 50 + 20 * features(k, 1) + 10 * features(k, 0);
    features(k, 2) = 1e-3 * (features(k, 2) + features(k, 0));
  }
  const std::vector<double> found = statistics_of(FeatureSpace(features).of_features(features));
  ASSERT_EQ(found.size(), 3 + 6u);
  for (const size_t i : {0, 1, 2, 4, 5, 7}) EXPECT_NEAR(found[i], 0, 1e-12) << i;
  EXPECT_NEAR(found[3] + found[6] + found[8], 3, 1e-12);  // the trace of a correlation matrix
  EXPECT_GT(found[3] * found[8], 0);
}

// Of a feature of deviation 2 moved by 3 and stretched by 2.5, and one left as it is:
// ((3 / 2)^2 + (2.5 - 1)^2) / 2 in standardised features, the Fréchet distance of Gaussians.
TEST(Statistics, HaveTheFrechetDistanceWhereAxesAreTheSame) {
  Matrix model(4, 2), solver(4, 2);
  model.values = {-2, 1, 2, 1, -2, -1, 2, -1};
  for (size_t k = 0; k < 4; ++k) {
    solver(k, 0) = 3 + 2.5 * model(k, 0);
    solver(k, 1) = model(k, 1);
  }
  // The second moments are about the model's mean, so the shift counts in them too: measured apart.
  Matrix shifted = model, stretched = solver;
  for (size_t k = 0; k < 4; ++k) {
    shifted(k, 0) += 1e-4;
    stretched(k, 0) -= 3;
  }
  const Statistics statistics(model);
  EXPECT_NEAR(distance(statistics, stretched), 1.5 * 1.5 / 2, 1e-12);
  EXPECT_NEAR(distance(statistics, shifted), std::pow(1e-4 / 2, 2) / 2, 1e-14);
}

// Of two features that go together by 0.6 the axis along which they differ has a variance of 0.4,
// the other one of 1.6: they count by their roots, so a shift d of the first is worth d^2 /
// sqrt(0.4) / (sqrt(0.4) + sqrt(1.6)).
TEST(Statistics, CountFaintAxesMoreThanByTheirVariance) {
  const double p = std::sqrt(0.8), q = std::sqrt(0.2), shift = 1e-4;
  Matrix model(4, 2);
  model.values = {p + q, p - q, p - q, p + q, -p + q, -p - q, -p - q, -p + q};
  Matrix moved = model;
  for (size_t k = 0; k < 4; ++k) {
    moved(k, 0) += shift / std::sqrt(2);
    moved(k, 1) -= shift / std::sqrt(2);
  }
  const double expected = shift * shift / std::sqrt(0.4) / (std::sqrt(0.4) + std::sqrt(1.6));
  EXPECT_NEAR(distance(Statistics(model), moved), expected, 1e-6 * expected);
}

// Some of the samples tell the slope as all do where they repeat.
TEST(Statistics, SlopesAreOfTheSamplesTaken) {
  const Matrix model = normal_rows(8, 2, 1), half = normal_rows(4, 2, 2);
  const Matrix change = normal_rows(4, 2, 3);
  const Statistics statistics(model);
  StatisticsSlope once = statistics.slope(1), twice = statistics.slope(1);
  statistics.add(half, {change}, 0, once);
  statistics.add(half, {change}, 0, twice);
  statistics.add(half, {change}, 4, twice);
  const Matrix expected = twice.jacobian(), found = once.jacobian();
  for (size_t i = 0; i < found.values.size(); ++i) {
    EXPECT_NEAR(found.values[i], expected.values[i], 1e-12);
  }
}

// What two groups did in opposite directions is no change of all together; groups of other sizes
// count by these.
TEST(Statistics, OfGroupsAreThoseOfEachApart) {
  const Matrix model = normal_rows(300, 2, 1);
  std::vector<int64_t> groups(300, 7);
  std::fill(groups.begin(), groups.begin() + 100, -1);
  Matrix moved = model;
  for (size_t k = 0; k < 300; ++k) moved(k, 0) += groups[k] == 7 ? -1e-4 : 2e-4;
  const Statistics together(model), apart(model, groups);
  EXPECT_EQ(apart.size(), 2 * together.size());
  EXPECT_EQ(distance(apart, model), 0);
  const double deviation =
      std::sqrt(statistics_of(model)[2] - std::pow(statistics_of(model)[0], 2));
  const double shift = 1e-4 / deviation;
  EXPECT_NEAR(distance(apart, moved), (4. / 3 + 2. / 3) * shift * shift / 2, 1e-2 * shift * shift);
  EXPECT_LT(distance(together, moved), 0.5 * distance(apart, moved));
}

TEST(Statistics, OfOneGroupAreThoseOfAll) {
  const Matrix model = normal_rows(30, 2, 1), solver = normal_rows(30, 2, 2);
  const Statistics all(model), one(model, std::vector<int64_t>(30, 5));
  EXPECT_EQ(all.of(solver), one.of(solver));
  EXPECT_EQ(all.weights(all.of(solver)), one.weights(one.of(solver)));
}

// Whatever the units of features and where they begin.
TEST(Statistics, KnowNoUnits) {
  const Matrix model = normal_rows(300, 3, 1), solver = normal_rows(300, 3, 2);
  const auto in_units = [](Matrix rows) {
    for (size_t k = 0; k < rows.rows; ++k) {
      rows(k, 0) = 1e3 * rows(k, 0) - 7;
      rows(k, 2) *= 1e-4;
    }
    return rows;
  };
  const double plain = distance(Statistics(model), solver);
  EXPECT_GT(plain, 1e-3);
  EXPECT_NEAR(distance(Statistics(in_units(model)), in_units(solver)), plain, 1e-9 * plain);
}

void expect_slope(const std::vector<int64_t>& groups) {
  const Matrix model = normal_rows(7, 3, 4), features = normal_rows(7, 3, 1);
  const std::vector<Matrix> changes = {normal_rows(7, 3, 2), normal_rows(7, 3, 3)};
  const Statistics statistics(model, groups);
  StatisticsSlope slope = statistics.slope(2);
  const auto part = [](const Matrix& rows, size_t begin, size_t end) {
    Matrix some(end - begin, rows.columns);
    for (size_t k = begin; k < end; ++k) {
      for (size_t j = 0; j < rows.columns; ++j) some(k - begin, j) = rows(k, j);
    }
    return some;
  };
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 4}, {4, 7}}) {
    statistics.add(part(features, begin, end),
                   {part(changes[0], begin, end), part(changes[1], begin, end)}, begin, slope);
  }
  const Matrix jacobian = slope.jacobian();
  constexpr double kStep = 1e-5;
  for (size_t number = 0; number < 2; ++number) {
    Matrix ahead = features, behind = features;
    for (size_t i = 0; i < features.values.size(); ++i) {
      ahead.values[i] += kStep * changes[number].values[i];
      behind.values[i] -= kStep * changes[number].values[i];
    }
    const auto after = statistics.of(ahead), before = statistics.of(behind);
    ASSERT_EQ(jacobian.rows, after.size());
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_NEAR(jacobian(i, number), (after[i] - before[i]) / (2 * kStep), 1e-8) << i;
    }
  }
}

TEST(Statistics, ChangeAsTheirSlopeSays) {
  expect_slope({});
  expect_slope({3, 3, 1, 1, 3, 1, 1});
}

std::string error_of(const Matrix& features, const std::vector<int64_t>& groups = {}) {
  try {
    const Statistics statistics(features, groups);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Statistics, SayWhatIsWrongWithFeatures) {
  const auto expect_error = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect_error(error_of(Matrix(20, 3)), "all 3 features are the same");
  expect_error(error_of(normal_rows(3, 3, 1)), "at least 4 samples, found 3");
  expect_error(error_of(normal_rows(20, 3, 1), {1, 2}), "20 samples have 2 groups");
  std::vector<int64_t> groups(20, 1);
  groups.back() = 2;
  expect_error(error_of(normal_rows(20, 3, 1), groups), "a group of one sample");
  try {
    Statistics(normal_rows(20, 3, 1)).of(normal_rows(20, 2, 1));
    ADD_FAILURE() << "fewer features than the model's samples have";
  } catch (const Error& error) {
    expect_error(error.what(), "are 2 numbers of a sample, of the model's own samples 3");
  }
}

TEST(FeatureSpace, LeavesConstantFeaturesOut) {
  Matrix features = normal_rows(20, 3, 1);
  for (size_t k = 0; k < features.rows; ++k) features(k, 1) = 7;
  EXPECT_EQ(FeatureSpace(features).size(), 2u);
}

// Some of the numbers of a sample and their products.
Matrix products_of(const Array& samples) {
  const PlainArray& x = samples.as<PlainArray>();
  Matrix features(static_cast<size_t>(x.count), 3);
  for (size_t k = 0; k < features.rows; ++k) {
    const double* row = x.values.data() + static_cast<int64_t>(k) * x.sample_size();
    features(k, 0) = row[0];
    features(k, 1) = row[0] * row[1];
    features(k, 2) = std::tanh(row[1]);
  }
  return features;
}

// Along the column of every coefficient, against runs of solvers in which it is another one.
TEST(FeatureChanges, AreThoseOfSolversWithOtherCoefficients) {
  const PlainProblem problem(fm_ot_schedule());
  const Samples& samples = problem.training;
  const std::vector<int64_t> some = first_samples(samples, 5);
  const NsSolver solver = make_solver("midpoint", {4, fm_ot_schedule()});
  const FamilyPtr family = bns_family(4);
  const std::vector<double> theta = family->parameters(solver);
  const NsSolver start = family->solver(theta);
  DirectOptions options;
  options.difference = options.time_difference = 1e-3;
  const auto changes = jacobian_changes(start, family->jacobian(theta), options);
  Counts counts;
  const Runs runs = samples.run(start, some, &counts);
  const Columns columns = samples.columns(runs, changes, &counts);
  const Matrix ends = samples.features_of_ends(products_of, runs);
  Matrix directions(changes.size(), columns.model.columns());
  for (size_t k = 0; k < changes.size(); ++k) directions(k, k) = 1;
  const Matrix found = samples.feature_changes(products_of, ends, runs, columns, directions);
  const std::vector<double> numbers = coefficients_of(start);
  for (size_t k = 0; k < changes.size(); ++k) {
    const Change& change = changes[k];
    const size_t index =
        change.what == Change::What::time ? static_cast<size_t>(change.step)
        : change.what == Change::What::start_scale
            ? start_scale_index(start.shape())
            : step_coefficient_index(start.shape(), static_cast<size_t>(change.step),
                                     static_cast<size_t>(change.column));
    const auto features_at = [&](double by) {
      std::vector<double> moved = numbers;
      moved[index] += by;
      return samples.features_of_ends(products_of,
                                      samples.run(solver_of(start.shape(), moved), some, &counts));
    };
    constexpr double kStep = 1e-5;
    const Matrix after = features_at(kStep), before = features_at(-kStep);
    double error = 0, size = 0;
    for (size_t s = 0; s < 5; ++s) {
      for (size_t j = 0; j < 3; ++j) {
        const double expected = (after(s, j) - before(s, j)) / (2 * kStep);
        error += std::pow(found(s, 3 * k + j) - expected, 2);
        size += expected * expected;
      }
    }
    EXPECT_LT(std::sqrt(error / size), 0.02) << "coefficient " << index;
  }
}

TEST(FeatureChanges, RefuseWhatIsNoFeatures) {
  const PlainProblem problem(fm_ot_schedule());
  const auto ask = [&](const SampleFeatures& features) {
    return problem.training.features_of_targets(features, first_samples(problem.training, 4));
  };
  EXPECT_THROW(ask([](const Array&) { return Matrix(3, 2); }), Error);
  EXPECT_THROW(ask([](const Array&) {
                 Matrix broken(4, 2);
                 broken(1, 1) = NAN;
                 return broken;
               }),
               Error);
}

// A step of height 2 in a square: every filter sees it where it crosses, so sharper is larger, and
// the mean and deviation of the channel are known.
TEST(PlainFeatures, TellSharpnessAndBrightness) {
  const PlainFeatures features({1, 8, 8});
  EXPECT_EQ(features.size(), 2 * 16 + 2u);  // 8 and 4 wide; 2 is narrower than a filter
  std::vector<double> step(64), ramp(64);
  for (size_t i = 0; i < 64; ++i) {
    step[i] = i % 8 < 4 ? -1 : 1;
    ramp[i] = static_cast<double>(i % 8) / 4 - 0.875;
  }
  const Matrix of_step = features(step), of_ramp = features(ramp);
  EXPECT_NEAR(of_step(0, 32), 0, 1e-12);
  EXPECT_NEAR(of_step(0, 33), std::log(1 + 1e-3), 1e-12);
  EXPECT_NEAR(of_ramp(0, 33), std::log(std::sqrt(21. / 64) + 1e-3), 1e-9);
  EXPECT_EQ(PlainFeatures({2, 100}).size(), 3 * 16 + 4u);
  EXPECT_EQ(PlainFeatures({5}).size(), 16 + 2u);
}

// Filters of zero mean see no brightness; a sample twice as strong has logarithms log 2 above.
TEST(PlainFeatures, SeeContrastAndNotBrightness) {
  const PlainFeatures features({3, 8, 8});
  std::vector<double> sample(192);
  fill_normal(3, 0, sample.data(), 192);
  std::vector<double> brighter = sample, stronger = sample;
  for (double& value : brighter) value += 0.5;
  for (double& value : stronger) value *= 2;
  const Matrix plain = features(sample), bright = features(brighter), strong = features(stronger);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_NEAR(bright(0, i), plain(0, i), 1e-9);
    EXPECT_NEAR(strong(0, i) - plain(0, i), std::log(2), 5e-3);
  }
}

}  // namespace
}  // namespace bespoke
