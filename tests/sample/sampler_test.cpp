#include "bespoke/sample/sampler.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cmath>
#include <cstring>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/solver/catalogue.h"
#include "support.h"

namespace bespoke {
namespace {

// A field given by a function of (x, t), with t the first sample's time.
// A field of the state and of one time for the whole batch.
std::shared_ptr<const Field> field_of(
    const std::function<torch::Tensor(const torch::Tensor&, double)>& f) {
  return function_field([f](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
    return f(x, t[0].item<double>());
  });
}

NsSolver euler(int nfe) { return make_solver("euler", {nfe, fm_ot_schedule(), ""}); }

TEST(Sampler, RunsAlgorithmOne) {
  // x' = 3 t^2 by four Euler steps: the left Riemann sum.
  const auto field =
      field_of([](const torch::Tensor& x, double t) { return torch::full_like(x, 3 * t * t); });
  const auto x = sample(euler(4), *field, torch::zeros({2, 3}, torch::kDouble));
  EXPECT_NEAR(x[1][2].item<double>(), 0.25 * 3 * (0 + 1 + 4 + 9) / 16., 1e-15);
  // And exactly by RK4, whose quadrature is Simpson's.
  const auto exact = sample(make_solver("rk4", {4, fm_ot_schedule(), ""}), *field,
                            torch::zeros({2, 3}, torch::kDouble));
  EXPECT_NEAR(exact[0][0].item<double>(), 1, 1e-15);
}

TEST(Sampler, CallsBackAfterEveryStep) {
  const auto field = field_of([](const torch::Tensor& x, double) { return x.clone(); });
  std::vector<double> seen;
  sample(euler(3), *field, torch::ones({1, 2}, torch::kDouble), {}, [&](const StepInfo& info) {
    EXPECT_EQ(info.step, static_cast<int>(seen.size()));
    EXPECT_NEAR(info.next_time - info.time, 1 / 3., 1e-15);
    seen.push_back(info.x[0][0].item<double>());
  });
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_NEAR(seen[2], std::pow(4 / 3., 3), 1e-14);
}

TEST(Sampler, NamesTheStepTimeAndSampleOfANaN) {
  const auto field = field_of([](const torch::Tensor& x, double t) {
    auto u = x.clone();
    if (t > 0.4) u[2][1] = std::nan("");
    return u;
  });
  try {
    sample(euler(4), *field, torch::ones({5, 3}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::diverged);
    EXPECT_NE(std::string(error.what()).find("step 3 of 4 (t = 0.5, sample 2)"), std::string::npos)
        << error.what();
  }
}

TEST(Sampler, AFieldMayReturnItsInput) {
  const auto field = field_of([](const torch::Tensor& x, double) { return x; });
  const auto x = sample(make_solver("ab2", {4, fm_ot_schedule(), ""}), *field,
                        torch::ones({1, 2}, torch::kDouble));
  // Adams-Bashforth on x' = x by hand: the second velocity must still be x_1 when x_3 is made.
  double previous = 1, state = 1.25;
  for (int i = 1; i < 4; ++i) {
    const double next = state + 0.25 * (1.5 * state - 0.5 * previous);
    previous = state;
    state = next;
  }
  EXPECT_NEAR(x[0][0].item<double>(), state, 1e-14);
}

TEST(Sampler, RefusesAVelocityOfAnotherShape) {
  const auto field =
      field_of([](const torch::Tensor& x, double) { return x.slice(1, 0, 1).clone(); });
  EXPECT_THROW(sample(euler(2), *field, torch::ones({2, 3})), Error);
}

TEST(Sampler, StartsWhereTheGridDoes) {
  const SchedulePtr fm = fm_ot_schedule();
  EXPECT_EQ(euler(4).start_scale, 1);
  EXPECT_NEAR(make_solver("edm-heun", {7, fm, ""}).start_scale, 80 / 81., 1e-14);
}

TEST(Sampler, AccumulatesHalfPrecisionModelsInFloat32) {
  // The sum of 1000 steps of 1e-3 in bfloat16 would stall long before 1.
  const auto field = field_of([](const torch::Tensor& x, double) {
    EXPECT_EQ(x.scalar_type(), torch::kFloat);
    return torch::ones_like(x, torch::kBFloat16);
  });
  const auto x = sample(euler(1000), *field, torch::zeros({1, 4}, torch::kBFloat16));
  EXPECT_EQ(x.scalar_type(), torch::kFloat);
  EXPECT_NEAR(x[0][0].item<double>(), 1, 1e-6);
}

TEST(Sampler, BitsDoNotDependOnBatchOrThreads) {
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    const ModelPtr model =
        mixture_model(testing::small_mixture(37, 5), vp_schedule(), Prediction::noise, dtype);
    const VelocityField field(model);
    const auto x0 = testing::starting_noise(*model, 21).to(dtype);
    const NsSolver solver = make_solver("dpm++2m", {7, vp_schedule(), ""});
    const int threads = at::get_num_threads();
    at::set_num_threads(2);
    const auto all = sample(solver, field, x0);
    at::set_num_threads(1);
    EXPECT_TRUE(torch::equal(all, sample(solver, field, x0)));
    at::set_num_threads(threads);
    for (const int64_t i : {0, 7, 20}) {
      EXPECT_TRUE(torch::equal(all[i], sample(solver, field, x0.slice(0, i, i + 1))[0]));
    }
    EXPECT_TRUE(torch::equal(all.slice(0, 5, 10), sample(solver, field, x0.slice(0, 5, 10))));
  }
}

// LibTorch 2 dropped the const from Allocator::allocate and asks for copy_data.
#if TORCH_VERSION_MAJOR >= 2
#define BESPOKE_ALLOCATE_CONST
#else
#define BESPOKE_ALLOCATE_CONST const
#endif

// Counts allocations at least as large as a state while it is installed.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator(c10::Allocator* inner, size_t least) : inner_(inner), least_(least) {}
  c10::DataPtr allocate(size_t size) BESPOKE_ALLOCATE_CONST override {
    if (size >= least_) ++count;
    return inner_->allocate(size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t size) const {
    std::memcpy(to, from, size);
  }
  mutable int count = 0;

 private:
  c10::Allocator* inner_;
  size_t least_;
};

TEST(Sampler, AllocatesOneStateAndACopyForEachCall) {
  const int64_t size = 1 << 16;
  const auto x0 = torch::ones({1, size});
  int model_allocations = 0;
  const auto field = field_of([&](const torch::Tensor& x, double) {
    ++model_allocations;
    return torch::ones_like(x);
  });
  const NsSolver solver = euler(10);
  c10::Allocator* original = c10::GetAllocator(c10::kCPU);
  CountingAllocator counting(original, static_cast<size_t>(size) * sizeof(float));
  constexpr uint8_t kPriority = 100;
  c10::SetAllocator(c10::kCPU, &counting, kPriority);
  sample(solver, *field, x0);
  c10::SetAllocator(c10::kCPU, original, kPriority);
  EXPECT_EQ(model_allocations, 10);
  // The callable is given a copy of the state, to write into.
  EXPECT_EQ(counting.count, 2 * model_allocations + 1);
}

}  // namespace
}  // namespace bespoke
