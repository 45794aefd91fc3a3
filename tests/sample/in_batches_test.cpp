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
