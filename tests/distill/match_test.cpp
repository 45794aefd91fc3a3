// Matching of statistics, on plain arrays.

#include "bespoke/distill/match.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"
#include "plain_problem.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using testing::PlainProblem;
using testing::PlainSamplesOptions;
using testing::ThreadTeam;

// The numbers of a sample and their magnitudes.
Matrix magnitudes_of(const Array& samples) {
  const PlainArray& x = samples.as<PlainArray>();
  const auto size = static_cast<size_t>(x.sample_size());
  Matrix features(static_cast<size_t>(x.count), 2 * size);
  for (size_t k = 0; k < features.rows; ++k) {
    for (size_t i = 0; i < size; ++i) {
      const double value = x.values[k * size + i];
      features(k, i) = value;
      features(k, size + i) = std::log(std::abs(value) + 0.1);
    }
  }
  return features;
}

// What took no part: products of neighbouring numbers.
Matrix products_of_neighbours(const Array& samples) {
  const PlainArray& x = samples.as<PlainArray>();
  const auto size = static_cast<size_t>(x.sample_size());
  Matrix features(static_cast<size_t>(x.count), size);
  for (size_t k = 0; k < features.rows; ++k) {
    for (size_t i = 0; i < size; ++i) {
      features(k, i) = x.values[k * size + i] * x.values[k * size + (i + 1) % size];
    }
  }
  return features;
}

// The squared difference of means, in standard errors of one sample, over all features.
double distance_of_means(const Samples& samples, const NsSolver& solver,
                         const SampleFeatures& features) {
  const auto all = first_samples(samples);
  Counts counts;
  const Matrix truth = samples.features_of_targets(features, all);
  const Matrix found = samples.features_of_ends(features, samples.run(solver, all, &counts));
  double distance = 0;
  for (size_t j = 0; j < truth.columns; ++j) {
    double sum = 0, squares = 0, shift = 0;
    for (size_t k = 0; k < truth.rows; ++k) {
      sum += truth(k, j);
      squares += truth(k, j) * truth(k, j);
      shift += found(k, j) - truth(k, j);
    }
    const auto count = static_cast<double>(truth.rows);
    const double variance = squares / count - sum * sum / count / count;
    distance += shift * shift / count / count / variance;
  }
  return distance;
}

DistillOptions few_evaluations(Match match) {
  DistillOptions options;
  options.nfe = 1;
  options.field.schedule = fm_ot_schedule();
  options.match.match = match;
  if (match != Match::samples) options.match.features = magnitudes_of;
  return options;
}

// Samples get nearer as a set, in features that took no part and on samples that took none, and
// further one by one.
TEST(Match, BringsSetsNearerForSomeDecibels) {
  const PlainProblem problem(fm_ot_schedule());
  const DistillSummary plain =
      distill(problem.training, problem.validation, few_evaluations(Match::samples));
  const DistillSummary both =
      distill(problem.training, problem.validation, few_evaluations(Match::both));
  EXPECT_FALSE(plain.match);
  ASSERT_TRUE(both.match);
  EXPECT_EQ(both.match->first_psnr, plain.validation_psnr);
  EXPECT_EQ(both.match->psnr, both.validation_psnr);
  EXPECT_LT(both.validation_psnr, plain.validation_psnr);
  EXPECT_GT(both.validation_psnr, plain.validation_psnr - 4);
  EXPECT_LT(both.match->distance, 0.85 * both.match->first_distance);
  for (const SampleFeatures& features :
       {SampleFeatures(magnitudes_of), SampleFeatures(products_of_neighbours)}) {
    EXPECT_LT(distance_of_means(problem.validation, both.solver, features),
              0.8 * distance_of_means(problem.validation, plain.solver, features));
  }
}

TEST(Match, WeighsSamplesLessWhereTheDistributionAloneCounts) {
  const PlainProblem problem(fm_ot_schedule());
  const auto run = [&](Match match) {
    return distill(problem.training, problem.validation, few_evaluations(match));
  };
  const DistillSummary both = run(Match::both), distribution = run(Match::distribution);
  EXPECT_LE(distribution.match->distance, both.match->distance);
  EXPECT_LT(distribution.validation_psnr, both.validation_psnr);
}

TEST(Match, HappensOfItselfWhereEvaluationsAreFewAndFeaturesThere) {
  MatchOptions options;
  EXPECT_FALSE(options.has_statistics(2));
  options.features = magnitudes_of;
  EXPECT_TRUE(options.has_statistics(4));
  EXPECT_FALSE(options.has_statistics(5));
  options.match = Match::both;
  EXPECT_TRUE(options.has_statistics(20));
  for (const Match match : {Match::automatic, Match::samples, Match::both, Match::distribution}) {
    EXPECT_EQ(parse_match(to_string(match)), match);
  }
  EXPECT_THROW(parse_match("statistics"), Error);
}

TEST(Match, GoesOnWhereItWasStopped) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = few_evaluations(Match::both);
  const DistillSummary unbroken = distill(problem.training, problem.validation, options);
  for (const int64_t until : {int64_t{1}, int64_t{2}}) {
    std::string stored;
    options.on_iteration = [&](const DistillProgress&, const DistillState& state) {
      stored = to_json_text(state);
      const bool stops = state.match && state.match->iteration == until;
      return stops ? Verdict::stop : Verdict::go_on;
    };
    EXPECT_EQ(distill(problem.training, problem.validation, options).ending, Ending::stopped);
    options.on_iteration = nullptr;
    const DistillSummary resumed =
        distill(problem.training, problem.validation, options, parse_distill_state(stored, "test"));
    EXPECT_TRUE(resumed.solver == unbroken.solver);
    EXPECT_EQ(resumed.training.forwards, unbroken.training.forwards);
    EXPECT_EQ(resumed.match->iteration, unbroken.match->iteration);
    EXPECT_EQ(resumed.match->first_distance, unbroken.match->first_distance);
  }
}

TEST(Match, IsTheSameOnATeam) {
  const DistillOptions options = few_evaluations(Match::both);
  const PlainProblem problem(fm_ot_schedule());
  const DistillSummary one = distill(problem.training, problem.validation, options);
  ThreadTeam(3).run([&](Team& team) {
    PlainSamplesOptions shared;
    shared.samples.team = &team;
    const PlainProblem mine(fm_ot_schedule(), shared);
    const DistillSummary summary = distill(mine.training, mine.validation, options);
    EXPECT_TRUE(summary.solver == one.solver);
    EXPECT_EQ(summary.training.forwards, one.training.forwards);
  });
}

TEST(Match, KeepsToTheBudget) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = few_evaluations(Match::both);
  for (const int64_t budget : {3000, 6000}) {
    options.most_calls = budget;
    const DistillSummary summary = distill(problem.training, problem.validation, options);
    EXPECT_LE(summary.screening.forwards + summary.training.forwards, budget);
  }
}

// Guided where it is, and with times that are rounded.
TEST(Match, KeepsConstraints) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = few_evaluations(Match::both);
  options.constraints = {true, parse_time_rounding("integer:50")};
  options.family = bns_family(1, options.constraints);
  const DistillSummary summary = distill(problem.training, problem.validation, options);
  EXPECT_EQ(summary.solver.start_scale, 1);
  const double level = 50 * summary.solver.times[0];
  EXPECT_NEAR(level, std::round(level), 1e-9);
}

TEST(Match, SaysWhatItNeeds) {
  const PlainProblem problem(fm_ot_schedule());
  const auto error_of = [&](const DistillOptions& options) -> std::string {
    try {
      distill(problem.training, problem.validation, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  DistillOptions options = few_evaluations(Match::both);
  options.match.features = nullptr;
  EXPECT_NE(error_of(options).find("features of samples are needed"), std::string::npos);
  options.match.features = [](const Array& samples) {
    const PlainArray& x = samples.as<PlainArray>();
    Matrix features(static_cast<size_t>(x.count), 70);
    for (size_t i = 0; i < features.values.size(); ++i) {
      features.values[i] = std::sin(static_cast<double>(i) + x.values[0]);
    }
    return features;
  };
  EXPECT_NE(error_of(options).find("at least 71 samples, found 64"), std::string::npos);
  options.match.features = [](const Array& samples) {
    return Matrix(static_cast<size_t>(samples.as<PlainArray>().count), 2);
  };
  EXPECT_NE(error_of(options).find("all 2 features are the same"), std::string::npos);
  options.match.features = [](const Array& samples) {
    Matrix features = magnitudes_of(samples);
    features(0, 0) = NAN;
    return features;
  };
  EXPECT_NE(error_of(options).find("model's own samples cannot be matched: NaN"),
            std::string::npos);
  options.match.features = magnitudes_of;
  options.match.groups = {1, 2};
  EXPECT_NE(error_of(options).find("64 samples have 2 groups"), std::string::npos);
}

// Other numbers of a sample in later calls than of the model's own samples.
TEST(Match, RefusesFeaturesOfAnotherSize) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = few_evaluations(Match::both);
  int calls = 0;
  options.match.features = [&](const Array& samples) {
    const Matrix all = magnitudes_of(samples);
    const size_t wide = calls++ == 0 ? all.columns : all.columns - 1;
    Matrix some(all.rows, wide);
    for (size_t k = 0; k < all.rows; ++k) {
      for (size_t i = 0; i < wide; ++i) some(k, i) = all(k, i);
    }
    return some;
  };
  try {
    distill(problem.training, problem.validation, options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("numbers of a sample"), std::string::npos);
  }
}

// The same samples of two classes matched apart and together end elsewhere; a single group is none.
TEST(Match, TakesGroupsApart) {
  const PlainProblem problem(fm_ot_schedule());
  DistillOptions options = few_evaluations(Match::both);
  const DistillSummary together = distill(problem.training, problem.validation, options);
  options.match.groups.assign(64, 3);
  EXPECT_TRUE(distill(problem.training, problem.validation, options).solver == together.solver);
  for (size_t k = 0; k < 64; k += 2) options.match.groups[k] = 4;
  const DistillSummary apart = distill(problem.training, problem.validation, options);
  EXPECT_FALSE(apart.solver == together.solver);
  EXPECT_LT(apart.match->distance, apart.match->first_distance);
}

}  // namespace
}  // namespace bespoke
