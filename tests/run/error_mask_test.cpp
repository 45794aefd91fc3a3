// A mask leaves of a problem the smaller problem of the numbers that count.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/distill.h"
#include "bespoke/distill/fit.h"
#include "bespoke/run/plain_arrays.h"
#include "bespoke/run/reference.h"
#include "bespoke/run/samples.h"
#include "bespoke/solver/catalogue.h"
#include "refusal.h"

namespace bespoke {
namespace {

constexpr int64_t kCount = 6, kSize = 12, kWhole = 20;

// Numbers that are near 1 or near -1, each for itself: the velocity of a number is its own matter.
std::vector<double> velocity_of_numbers(const std::vector<double>& times, const PlainArray& x,
                                        const std::vector<int64_t>&) {
  std::vector<double> velocities;
  for (size_t i = 0; i < x.values.size(); ++i) {
    const double t = times[i / static_cast<size_t>(x.sample_size())];
    const double variance = 0.04 * t * t + (1 - t) * (1 - t);
    const double mean = std::tanh(t * x.values[i] / variance);
    velocities.push_back(mean + (0.04 * t - (1 - t)) / variance * (x.values[i] - t * mean));
  }
  return velocities;
}

// The noise of samples of `size` numbers, whose first kSize are the same for every size.
Array noise_of(int64_t size) {
  PlainArray noise{{}, kCount};
  for (int64_t s = 0; s < kCount; ++s) {
    std::vector<double> row(static_cast<size_t>(size)), first(static_cast<size_t>(kSize));
    fill_normal(7, static_cast<uint64_t>(s), row.data(), size);
    fill_normal(3, static_cast<uint64_t>(s), first.data(), kSize);
    std::copy(first.begin(), first.end(), row.begin());
    noise.values.insert(noise.values.end(), row.begin(), row.end());
  }
  return Array::of(std::move(noise));
}

// 1 for the first `counting` numbers of a row.
Array mask_of(const std::vector<int64_t>& counting, int64_t size) {
  PlainArray mask{{}, static_cast<int64_t>(counting.size())};
  for (const int64_t count : counting) {
    for (int64_t k = 0; k < size; ++k) mask.values.push_back(k < count ? 1 : 0);
  }
  return Array::of(std::move(mask));
}

// The steps of the reference are those of the smaller problem for both, so that their trajectories
// agree to rounding; that is, fine ones.
Samples samples_of(int64_t size, const Array& mask = {}) {
  const auto field = plain_field(velocity_of_numbers);
  const Array noise = noise_of(size);
  std::vector<int64_t> numbers(static_cast<size_t>(kCount));
  std::iota(numbers.begin(), numbers.end(), 0);
  ReferenceOptions reference;
  reference.tolerances = {1e-12, 1e-12};
  reference.record = kCount;
  Reference truth = draw_reference(field, plain_arrays(), noise, numbers, reference);
  EvaluationOptions options;
  options.mask = mask;
  return {field, noise, truth.x, std::make_shared<const Trajectories>(truth.trajectories), options};
}

void expect_near(const LinearModel& left, const LinearModel& right, double tolerance) {
  ASSERT_EQ(left.samples.size(), right.samples.size());
  EXPECT_NEAR(left.size, right.size, 1e-12);
  for (size_t s = 0; s < left.samples.size(); ++s) {
    const auto& one = left.samples[s];
    const auto& other = right.samples[s];
    EXPECT_NEAR(one.squared_error, other.squared_error, tolerance);
    ASSERT_EQ(one.products.size(), other.products.size());
    for (size_t j = 0; j < one.products.size(); ++j) {
      EXPECT_NEAR(one.products[j], other.products[j], tolerance);
      for (size_t k = 0; k <= j; ++k) EXPECT_NEAR(one.gram(j, k), other.gram(j, k), tolerance);
    }
  }
}

TEST(ErrorMask, LeavesTheProblemOfWhatCounts) {
  const Samples small = samples_of(kSize), masked = samples_of(kWhole, mask_of({kSize}, kWhole)),
                whole = samples_of(kWhole);
  EXPECT_NEAR(masked.sample_size(), kSize, 1e-12);
  EXPECT_NEAR(masked.data_deviation(), small.data_deviation(), 1e-9);
  const NsSolver solver =
      make_solver("dpm++2m", {4, fm_ot_schedule(), "lambda-range:from=-2,to=3"});
  const std::vector<int64_t> all = first_samples(small);
  Counts counts;
  const auto errors = masked.log_errors(solver, all, &counts);
  const auto expected = small.log_errors(solver, all, &counts);
  const auto others = whole.log_errors(solver, all, &counts);
  for (size_t s = 0; s < errors.size(); ++s) {
    EXPECT_NEAR(errors[s], expected[s], 1e-6);
    EXPECT_GT(std::abs(others[s] - expected[s]), 1e-3);  // without the mask it is another figure
  }
  const auto model = [&](const Samples& samples) {
    return samples.last_step(samples.run(solver, all, &counts));
  };
  expect_near(model(masked), model(small), 1e-8);
  const std::vector<Change> changes = {{Change::What::time, 1, 0, 1e-4},
                                       {Change::What::coefficient, 0, 1, 1e-4}};
  const auto columns = [&](const Samples& samples) {
    return samples.columns(samples.run(solver, all, &counts), changes, &counts);
  };
  const Columns of_masked = columns(masked), of_small = columns(small);
  expect_near(of_masked.model, of_small.model, 1e-7);
  const NsSolver other = make_solver("euler", {4, fm_ot_schedule()});
  expect_near(masked.against(of_masked, masked.run(other, all, &counts)),
              small.against(of_small, small.run(other, all, &counts)), 1e-7);
}

TEST(ErrorMask, FitsAndDistillsWhatCounts) {
  const Samples small = samples_of(kSize), masked = samples_of(kWhole, mask_of({kSize}, kWhole));
  Counts counts;
  const std::vector<double> times = {0.02, 0.3, 0.6, 0.85, 1};
  const FittedSolver one = fit_solver(small, first_samples(small), times, {}, &counts);
  const FittedSolver other = fit_solver(masked, first_samples(masked), times, {}, &counts);
  EXPECT_NEAR(one.loss, other.loss, 1e-5);
  for (size_t i = 0; i < one.solver.a.size(); ++i) {
    const double scale = 1 + std::abs(one.solver.a[i]);
    EXPECT_NEAR(one.solver.a[i], other.solver.a[i], 1e-5 * scale);
    for (size_t j = 0; j <= i; ++j) {
      EXPECT_NEAR(one.solver.b[i][j], other.solver.b[i][j], 1e-5 * scale);
    }
  }
}

TEST(ErrorMask, WeighsSamplesAlikeHoweverMuchCountsInThem) {
  const std::vector<int64_t> counting = {12, 3, 7, 12, 1, 5};
  const Samples masked = samples_of(kWhole, mask_of(counting, kWhole)), whole = samples_of(kWhole);
  EXPECT_NEAR(masked.sample_size(), 40.0 / 6, 1e-12);
  const NsSolver solver = make_solver("euler", {4, fm_ot_schedule()});
  Counts counts;
  const auto found = masked.log_errors(solver, first_samples(masked), &counts);
  const Runs runs = whole.run(solver, first_samples(whole), &counts);
  const Samples truth = samples_of(kWhole);
  const Runs exact =
      truth.run(make_solver("rk4", {400, fm_ot_schedule()}), first_samples(truth), &counts);
  for (int64_t s = 0; s < kCount; ++s) {
    double sum = 0;
    for (int64_t k = 0; k < counting[static_cast<size_t>(s)]; ++k) {
      const auto at = static_cast<size_t>(s * kWhole + k);
      const double miss = runs.parts[0].end().as<PlainArray>().values[at] -
                          exact.parts[0].end().as<PlainArray>().values[at];
      sum += miss * miss;
    }
    const double mean = sum / static_cast<double>(counting[static_cast<size_t>(s)]);
    EXPECT_NEAR(found[static_cast<size_t>(s)], std::log(mean), 1e-4);
  }
}

TEST(ErrorMask, IsRefusedWhereItMakesNoSense) {
  const auto problem = [](const Array& mask) {
    return testing::refusal([&] { samples_of(kWhole, mask); });
  };
  EXPECT_NE(problem(mask_of({3, 0, 1, 1, 1, 1}, kWhole)).find("sample 1 is 0"), std::string::npos);
  EXPECT_NE(problem(mask_of({3, 3}, kWhole)).find("found 2 rows"), std::string::npos);
  EXPECT_NE(problem(mask_of({3}, kSize)).find("rows of 12"), std::string::npos);
}

}  // namespace
}  // namespace bespoke
