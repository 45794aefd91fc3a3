#include "bespoke/sample/dense_trajectories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/reference.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "support.h"

namespace bespoke {
namespace {

using testing::relative_error;
using testing::small_mixture;

ReferenceOptions recording(double tolerance) {
  ReferenceOptions options;
  options.tolerances = {tolerance, tolerance};
  options.record = 1000;
  return options;
}

std::vector<double> random_times(int count, double start = 0, double end = 1) {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> uniform(start, end);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(uniform(generator));
  std::sort(times.begin(), times.end());
  return times;
}

// The states at rising times, by a tight run from each to the next.
std::vector<torch::Tensor> true_states(const ModelPtr& model, torch::Tensor x,
                                       const std::vector<double>& times,
                                       const Conditions& conditions = {}) {
  ReferenceOptions options;
  options.tolerances = {1e-9, 1e-9};
  std::vector<torch::Tensor> states;
  double now = 0;
  for (const double t : times) {
    options.start = now;
    options.end = t;
    if (t > now) x = reference(model, x, conditions, options).x;
    now = t;
    states.push_back(x);
  }
  return states;
}

// Per sample the root mean square error in the FM-OT coordinates that the tolerance is of.
torch::Tensor scaled_error(const ModelPtr& model, double t, const torch::Tensor& x,
                           const torch::Tensor& truth) {
  const double s = from_fm_ot(*model->schedule(), t).s;
  return ((x - truth) / (s + truth.abs())).pow(2).mean(1).sqrt();
}

// Of a velocity alpha' D + sigma' E: the largest error, as one of D and E. (At t = 1 E vanishes on
// a mixture, and the velocity with it.)
double velocity_error(const ModelPtr& model, double t, const torch::Tensor& u,
                      const torch::Tensor& expected) {
  const double inside =
      safe_velocity_time(model->prediction(), *model->schedule(), t, safe_margin(*model));
  const SchedulePoint p = model->schedule()->at(inside);
  return (u - expected).abs().max().item<double>() /
         (std::abs(p.alpha_dot) + std::abs(p.sigma_dot));
}

class DenseTrajectoriesTest : public ::testing::TestWithParam<std::tuple<const char*, Prediction>> {
 protected:
  ModelPtr model() const {
    return mixture_model(small_mixture(), make_schedule(std::get<0>(GetParam())),
                         std::get<1>(GetParam()));
  }
};

TEST_P(DenseTrajectoriesTest, StatesAreRightAtEveryTime) {
  const ModelPtr model = this->model();
  const auto x0 = testing::starting_noise(*model, 4);
  const auto times = random_times(20);
  const auto truth = true_states(model, x0, times);
  for (const double tolerance : {1e-4, 1e-6}) {
    const auto dense = reference(model, x0, {}, recording(tolerance)).trajectories;
    std::vector<torch::Tensor> errors;
    for (size_t i = 0; i < times.size(); ++i) {
      errors.push_back(scaled_error(model, times[i], dense.state_at(times[i]), truth[i]));
    }
    const auto all = torch::cat(errors);
    EXPECT_LT(all.max().item<double>(), 25 * tolerance);
    EXPECT_LT(all.pow(2).mean().sqrt().item<double>(), 5 * tolerance);
  }
}

TEST_P(DenseTrajectoriesTest, BeginsWithTheNoiseAndEndsWithTheSample) {
  const ModelPtr model = this->model();
  const auto x0 = testing::starting_noise(*model, 4);
  const auto result = reference(model, x0, {}, recording(1e-5));
  EXPECT_LT(relative_error(result.trajectories.state_at(0), x0), 1e-15);
  EXPECT_LT(relative_error(result.trajectories.state_at(1), result.x), 1e-15);
  // In the bridges and just beside them.
  for (const double t : {1e-12, 1e-9, 1e-8, 1e-7}) {
    const double change = 20 * t * model->schedule()->source_std();
    EXPECT_LT(relative_error(result.trajectories.state_at(t), x0), change) << t;
  }
  for (const double left : {1e-14, 1e-10}) {
    const double change = 20 * std::max(left, model->schedule()->sigma(1 - left));
    EXPECT_LT(relative_error(result.trajectories.state_at(1 - left), result.x), change) << left;
  }
}

TEST_P(DenseTrajectoriesTest, AcceptedStepsAreKeptAsTheyAre) {
  const ModelPtr model = this->model();
  const auto x0 = testing::starting_noise(*model, 3);
  const auto dense = reference(model, x0, {}, recording(1e-4)).trajectories;
  const VelocityField field(model);
  for (int64_t k = 0; k < dense.count(); ++k) {
    const auto times = dense.times(k);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    const RecordedSteps& steps = dense.samples()[static_cast<size_t>(k)];
    ASSERT_EQ(steps.states.size(), times.size());
    ASSERT_EQ(steps.middles.size() + 1, times.size());
    for (size_t i = 0; i < times.size(); ++i) {
      const auto x = from_fm_ot(*model->schedule(), times[i]).s * tensor_of(steps.states[i])[0];
      EXPECT_LT(relative_error(dense.state_at(times[i])[k], x), 1e-12);
      const auto u = field.velocity(x.unsqueeze(0), testing::times(1, times[i]), {});
      EXPECT_LT(velocity_error(model, times[i], dense.velocity_at(times[i])[k], u[0]), 1e-6)
          << times[i];
    }
  }
}

// A quartic's slope is of fourth order, so its error falls as the tolerance to the power 4/5.
TEST_P(DenseTrajectoriesTest, VelocitiesAreThoseOfTheField) {
  const ModelPtr model = this->model();
  const auto x0 = testing::starting_noise(*model, 4);
  const auto dense = reference(model, x0, {}, recording(1e-9)).trajectories;
  const VelocityField field(model);
  auto times = random_times(10);
  times.push_back(0);
  times.push_back(1);
  for (const double t : times) {
    const auto u = field.velocity(dense.state_at(t), testing::times(4, t), {});
    EXPECT_LT(velocity_error(model, t, dense.velocity_at(t), u), 1e-5) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, DenseTrajectoriesTest,
                         ::testing::Combine(::testing::Values("fm-ot", "cosine", "vp", "edm"),
                                            ::testing::Values(Prediction::velocity,
                                                              Prediction::noise, Prediction::data,
                                                              Prediction::v)),
                         [](const auto& info) {
                           std::string name = std::string(std::get<0>(info.param)) + "_" +
                                              to_string(std::get<1>(info.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// What the choice of the quartic rests on. In the mean over times a dense state errs at most 1.2
// times as much as the accepted states do on these mixtures, or about as much as the tolerance
// where those err far less; on networks not even as much.
TEST(DenseTrajectories, StatesErrAboutAsMuchAsTheAcceptedOnes) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  const auto x0 = testing::starting_noise(*model, 48);  // few samples have most of the error
  for (const double tolerance : {1e-3, 1e-4, 1e-5, 1e-6}) {
    double dense_error = 0, accepted_error = 0;
    int dense_count = 0, accepted_count = 0;
    for (int64_t k = 0; k < x0.size(0); ++k) {
      const auto start = x0.slice(0, k, k + 1);
      const auto dense = reference(model, start, {}, recording(tolerance)).trajectories;
      const auto accepted = dense.times(0);
      auto times = random_times(20);
      times.insert(times.end(), accepted.begin() + 1, accepted.end());
      std::sort(times.begin(), times.end());
      const auto truth = true_states(model, start, times);
      for (size_t i = 0; i < times.size(); ++i) {
        const double error =
            scaled_error(model, times[i], dense.state_at(times[i]), truth[i]).item<double>();
        const bool at_step = std::binary_search(accepted.begin(), accepted.end(), times[i]);
        (at_step ? accepted_error : dense_error) += error * error;
        ++(at_step ? accepted_count : dense_count);
      }
    }
    EXPECT_LT(std::sqrt(dense_error / dense_count),
              std::max(1.5 * tolerance, 2 * std::sqrt(accepted_error / accepted_count)));
    EXPECT_LT(std::sqrt(dense_error / dense_count), 5 * tolerance);
  }
}

TEST(DenseTrajectories, RecordingChangesNothing) {
  const ModelPtr model = mixture_model(small_mixture(), vp_schedule(), Prediction::noise);
  const auto x0 = testing::starting_noise(*model, 5);
  ReferenceOptions plain = recording(1e-5);
  plain.record = 0;
  const auto kept = reference(model, x0, {}, recording(1e-5)),
             bare = reference(model, x0, {}, plain);
  EXPECT_TRUE(torch::equal(kept.x, bare.x));
  EXPECT_TRUE(torch::equal(kept.evaluations, bare.evaluations));
  EXPECT_EQ(kept.trajectories.count(), 5);
  EXPECT_EQ(bare.trajectories.count(), 0);
}

TEST(DenseTrajectories, ASampleDoesNotDependOnItsBatch) {
  const ModelPtr model =
      mixture_model(small_mixture(37, 5, 3), vp_schedule(), Prediction::noise, torch::kFloat);
  const auto x0 = testing::starting_noise(*model, 8).to(torch::kFloat);
  const Conditions labels = {{"class", torch::arange(8, torch::kLong) % 4}};
  const auto all = reference(model, x0, labels, recording(1e-5)).trajectories;
  Batching batching;
  batching.batch = 3;
  const auto parts =
      reference_in_batches(model, x0, labels, {1e-5, 1e-5}, batching, 8).trajectories;
  ASSERT_EQ(parts.count(), 8);
  for (const double t : {0.0, 0.2, 0.77, 1.0}) {
    EXPECT_EQ(all.state_at(t).scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::equal(all.state_at(t), parts.state_at(t))) << t;
    EXPECT_TRUE(torch::equal(all.velocity_at(t), parts.velocity_at(t))) << t;
  }
}

TEST(DenseTrajectories, OnlyTheFirstAreKeptWhereFewAreAskedFor) {
  const ModelPtr model = mixture_model(small_mixture(), vp_schedule(), Prediction::noise);
  const auto x0 = testing::starting_noise(*model, 8);
  const auto all = reference(model, x0, {}, recording(1e-5));
  Batching batching;
  batching.batch = 3;
  for (const int64_t few : {2, 3, 4, 7}) {
    const auto some = reference_in_batches(model, x0, {}, {1e-5, 1e-5}, batching, few);
    EXPECT_TRUE(torch::equal(some.x, all.x)) << few;
    ASSERT_EQ(some.trajectories.count(), few);
    for (const double t : {0.0, 0.31, 0.9}) {
      EXPECT_TRUE(torch::equal(some.trajectories.state_at(t),
                               all.trajectories.state_at(t).slice(0, 0, few)))
          << few << " at " << t;
    }
  }
}

TEST(DenseTrajectories, SinglePrecisionIsKeptAndAccurate) {
  const ModelPtr model =
      mixture_model(small_mixture(), vp_schedule(), Prediction::noise, torch::kFloat);
  const auto x0 = testing::starting_noise(*model, 4).to(torch::kFloat);
  const auto result = reference(model, x0, {}, recording(1e-6));
  const auto times = random_times(10);
  const auto truth = true_states(mixture_model(small_mixture(), vp_schedule(), Prediction::noise),
                                 x0.to(torch::kDouble), times);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_LT(relative_error(result.trajectories.state_at(times[i]), truth[i]), 2e-5) << times[i];
  }
  EXPECT_LT(relative_error(result.trajectories.state_at(0), x0), 3e-7);
  EXPECT_LT(relative_error(result.trajectories.state_at(1), result.x), 3e-7);
}

TEST(DenseTrajectories, CoverAPartOfThePath) {
  const ModelPtr model = mixture_model(small_mixture(), cosine_schedule(), Prediction::data);
  ReferenceOptions options = recording(1e-7);
  options.start = 0.25;
  options.end = 0.75;
  const auto x0 = testing::starting_noise(*model, 3);
  const auto result = reference(model, x0, {}, options);
  EXPECT_LT(relative_error(result.trajectories.state_at(0.25), x0), 1e-15);
  EXPECT_LT(relative_error(result.trajectories.state_at(0.75), result.x), 1e-15);
  EXPECT_EQ(result.trajectories.times(1).front(), 0.25);
  EXPECT_EQ(result.trajectories.times(1).back(), 0.75);
  options.end = 0.6;
  EXPECT_LT(relative_error(result.trajectories.state_at(0.6), reference(model, x0, {}, options).x),
            1e-5);
  EXPECT_THROW(result.trajectories.state_at(0.2), Error);
  EXPECT_THROW(result.trajectories.velocity_at(0.8), Error);
  EXPECT_THROW(DenseTrajectories().state_at(0.5), Error);
}

}  // namespace
}  // namespace bespoke
