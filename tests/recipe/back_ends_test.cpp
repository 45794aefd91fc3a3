// One problem through every back end of runs: plain arrays and LibTorch tensors, alone and as a
// team, with runs joined or not. tests/python/package_test.py asks the same of NumPy, PyTorch and
// JAX.

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/distill/distill.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "plain_problem.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using testing::mixture_function;
using testing::plain_mixture;

torch::Tensor tensor_from(const std::vector<double>& values, int64_t rows) {
  return torch::tensor(values, torch::kDouble).reshape({rows, -1});
}

PlainArray plain_from(const torch::Tensor& x) {
  const torch::Tensor flat = x.contiguous();
  const double* begin = flat.data_ptr<double>();
  return {{begin, begin + flat.numel()}, flat.size(0)};
}

// The plain model, called with tensors.
ModelPtr tensor_model(const SchedulePtr& schedule) {
  const auto function = mixture_function(plain_mixture(), schedule);
  const auto call = [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
    const torch::Tensor each = t.contiguous();
    const double* times = each.data_ptr<double>();
    const PlainArray state = plain_from(x);
    return tensor_from(function({times, times + each.numel()}, state, {}), state.count);
  };
  return function_model(Prediction::velocity, schedule, {6}, call, torch::kDouble);
}

ReferenceOptions recording(int64_t count) {
  ReferenceOptions options;
  options.tolerances = {1e-7, 1e-7};
  options.record = count;
  return options;
}

Samples plain(const SchedulePtr& schedule, int64_t count, uint64_t seed) {
  const auto field =
      plain_field(mixture_function(plain_mixture(), schedule), Prediction::velocity, schedule);
  const auto noise = testing::starting_noise(*schedule, static_cast<size_t>(count), 6, seed).values;
  const auto start = Array::of(PlainArray{noise, count});
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < count; ++k) numbers.push_back(k);
  Reference drawn = draw_reference(field, plain_arrays(), start, numbers, recording(count));
  return {field, start, drawn.x, std::make_shared<const Trajectories>(drawn.trajectories)};
}

Samples tensors(const SchedulePtr& schedule, int64_t count, uint64_t seed,
                const TensorSamplesOptions& options) {
  const ModelPtr model = tensor_model(schedule);
  Pairs pairs;
  pairs.x0 = tensor_from(
      testing::starting_noise(*schedule, static_cast<size_t>(count), 6, seed).values, count);
  ReferenceResult drawn = reference(model, pairs.x0, {}, recording(count), *options.team);
  pairs.x1 = drawn.x;
  pairs.trajectories = std::make_shared<const DenseTrajectories>(std::move(drawn.trajectories));
  return tensor_samples(std::make_shared<VelocityField>(model), pairs, options);
}

DistillSummary found(const Samples& training, const Samples& validation,
                     const SchedulePtr& schedule, Method method) {
  DistillOptions options;
  options.nfe = 4;
  options.method = method;
  options.iterations = 2;
  options.field.schedule = schedule;
  return distill(training, validation, options);
}

void expect_equal(const DistillSummary& one, const DistillSummary& other) {
  EXPECT_NEAR(one.validation_psnr, other.validation_psnr, 1e-6);
  EXPECT_EQ(one.start, other.start);
  const auto left = coefficients_of(one.solver), right = coefficients_of(other.solver);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_NEAR(left[i], right[i], 1e-9 * (1 + std::abs(right[i]))) << i;
  }
}

TEST(BackEnds, FindTheSameSolver) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule()}) {
    const Samples training = plain(schedule, 24, 1), validation = plain(schedule, 16, 2);
    for (const Method method : {Method::fit, Method::direct}) {
      const DistillSummary expected = found(training, validation, schedule, method);
      for (const bool joins : {false, true}) {
        TensorSamplesOptions options;
        options.joins_runs = joins;
        expect_equal(found(tensors(schedule, 24, 1, options), tensors(schedule, 16, 2, options),
                           schedule, method),
                     expected);
      }
    }
  }
}

TEST(BackEnds, FindTheSameSolverAsATeam) {
  const SchedulePtr schedule = vp_schedule();
  const DistillSummary expected =
      found(plain(schedule, 24, 1), plain(schedule, 16, 2), schedule, Method::direct);
  testing::ThreadTeam(2).run([&](Team& team) {
    TensorSamplesOptions options;
    options.team = &team;
    expect_equal(found(tensors(schedule, 24, 1, options), tensors(schedule, 16, 2, options),
                       schedule, Method::direct),
                 expected);
  });
}

}  // namespace
}  // namespace bespoke
