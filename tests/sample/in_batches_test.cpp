#include "bespoke/sample/in_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "support.h"

namespace bespoke {
namespace {

// A mixture that runs out of memory for more than `most` samples at once.
ModelPtr large_model(int64_t most) {
  const ModelPtr model =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);
  return function_model(
      Prediction::velocity, fm_ot_schedule(), {6},
      [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        if (x.size(0) > most) throw std::bad_alloc();
        return model->predict(x, t, conditions);
      },
      torch::kDouble);
}

TEST(InBatches, GoesOnWithHalfWhereMemoryRunsOut) {
  const ModelPtr model = large_model(3);
  const auto x0 = testing::starting_noise(*model, 13);
  const NsSolver solver = make_solver("midpoint", {4, fm_ot_schedule()});
  std::vector<int64_t> told;
  std::vector<double> progress;
  Batching batching;
  batching.batch = 12;
  batching.on_less = [&](int64_t batch) { told.push_back(batch); };
  batching.on_progress = [&](double done) { progress.push_back(done); };
  const auto x = sample_in_batches(solver, VelocityField(model), x0, {}, batching);
  EXPECT_EQ(told, (std::vector<int64_t>{6, 3}));
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 1);
  EXPECT_TRUE(torch::equal(x, sample(solver, VelocityField(large_model(13)), x0)));
  const auto truth = reference_in_batches(model, x0, {}, {1e-6, 1e-6}, batching);
  EXPECT_TRUE(
      torch::equal(truth.x, reference_in_batches(large_model(13), x0, {}, {1e-6, 1e-6}, {}).x));
}

// Samples take different numbers of steps: whoever arrives is replaced by one that waits.
TEST(InBatches, TheReferencesBatchStaysFull) {
  constexpr int64_t kBatch = 16, kCount = 96;
  const ModelPtr mixture =
      mixture_model(testing::small_mixture(6, 4, 2), vp_schedule(), Prediction::noise);
  int64_t calls = 0, rows = 0;
  const ModelPtr model = function_model(
      Prediction::noise, vp_schedule(), {6},
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        ++calls;
        rows += x.size(0);
        EXPECT_LE(x.size(0), kBatch);
        return mixture->predict(x, t, conditions);
      },
      torch::kDouble);
  const auto x0 = testing::starting_noise(*model, kCount);
  const Conditions labels = {{"class", torch::arange(kCount, torch::kLong) % 3}};
  Batching batching;
  batching.batch = kBatch;
  const auto found = reference_in_batches(model, x0, labels, {1e-6, 1e-6}, batching, 20);
  EXPECT_EQ(rows, found.evaluations.sum().item<int64_t>());
  const int64_t full = (rows + kBatch - 1) / kBatch,
                of_one = found.evaluations.max().item<int64_t>();
  EXPECT_LE(calls, full + of_one);  // what is not full is the end, when none wait
  // And each sample is what it is alone.
  ReferenceOptions options;
  options.tolerances = {1e-6, 1e-6};
  options.record = 20;
  const auto all = reference(mixture, x0, labels, options);
  EXPECT_TRUE(torch::equal(found.x, all.x));
  EXPECT_TRUE(torch::equal(found.evaluations, all.evaluations));
  EXPECT_TRUE(torch::equal(found.trajectories.state_at(0.4), all.trajectories.state_at(0.4)));
}

// Memory that runs out in the middle of a run: what has begun goes on with fewer at a time.
TEST(InBatches, MemoryMayRunOutOnTheWay) {
  const ModelPtr mixture =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);
  int64_t calls = 0;
  const ModelPtr model = function_model(
      Prediction::velocity, fm_ot_schedule(), {6},
      [&](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
        if (++calls > 21 && x.size(0) > 5) throw std::bad_alloc();
        return mixture->predict(x, t, conditions);
      },
      torch::kDouble);
  const auto x0 = testing::starting_noise(*model, 40);
  Batching batching;
  batching.batch = 16;
  std::vector<int64_t> told;
  batching.on_less = [&](int64_t batch) { told.push_back(batch); };
  const auto found = reference_in_batches(model, x0, {}, {1e-6, 1e-6}, batching, 3);
  EXPECT_EQ(told, (std::vector<int64_t>{8, 4}));
  const auto all = reference_in_batches(mixture, x0, {}, {1e-6, 1e-6}, {}, 3);
  EXPECT_TRUE(torch::equal(found.x, all.x));
  EXPECT_TRUE(torch::equal(found.evaluations, all.evaluations));
  EXPECT_TRUE(torch::equal(found.trajectories.state_at(0.4), all.trajectories.state_at(0.4)));
}

TEST(InBatches, SaysWhereNotEvenOneSampleFits) {
  const ModelPtr model = large_model(0);
  try {
    reference_in_batches(model, testing::starting_noise(*model, 4), {}, {});
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
  }
}

}  // namespace
}  // namespace bespoke
