#include "bespoke/tensor/pending_states.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/model/guidance.h"
#include "bespoke/run/solver_run.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/sample/tensor_field.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "self_guided.h"
#include "support.h"

namespace bespoke {
namespace {

// A run on them, as devices make it.
torch::Tensor sample_pending(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                             const Conditions& conditions, const SolverStepCallback& on_step = {}) {
  const torch::Tensor start = solver.start_scale * x0;
  PendingStates states(solver, pending_coefficients(solver, x0.device(), x0.scalar_type()), start);
  const std::shared_ptr<const Field> borrowed(&field, [](const Field*) {});
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < x0.size(0); ++row) rows.push_back(row);
  Counts counts;
  run_steps(*tensor_field(borrowed, conditions), solver, array_of(start), rows, states, &counts,
            on_step);
  return tensor_of(states.state(solver.a.size() - 1));
}

TEST(PendingStates, GiveTheSamplesOfTheSampler) {
  for (const auto prediction : {Prediction::velocity, Prediction::noise}) {
    const ModelPtr model = mixture_model(testing::small_mixture(), vp_schedule(), prediction);
    const auto x0 = testing::starting_noise(*model, 5);
    const VelocityField field(model);
    for (const char* name : {"euler", "rk4", "dpm++3m"}) {
      const NsSolver solver = make_solver(name, {8, vp_schedule(), ""});
      std::vector<torch::Tensor> states, velocities;
      const auto keep = [&](const SolverStep& step) {
        states.push_back(tensor_of(step.x).clone());
        velocities.push_back(tensor_of(step.velocities.velocity).clone());
      };
      const auto x = sample_pending(solver, field, x0, {}, keep);
      EXPECT_LT(testing::relative_error(x, sample(solver, field, x0)), 1e-13) << name;
      ASSERT_EQ(states.size(), 8u);
      sample(solver, field, x0, {}, [&](const StepInfo& info) {
        const auto i = static_cast<size_t>(info.step);
        EXPECT_LT(testing::relative_error(states[i], info.x), 1e-13);
        EXPECT_LT(testing::relative_error(velocities[i], info.velocity), 1e-12);
      });
    }
  }
}

TEST(PendingStates, TakeHalfPrecisionAndDifferences) {
  const auto half = function_field([](const torch::Tensor& x, const torch::Tensor&,
                                      const Conditions&) { return (-x).to(torch::kBFloat16); });
  const NsSolver solver = make_solver("midpoint", {4, fm_ot_schedule(), ""});
  const auto x0 = torch::randn({3, 7}, torch::kFloat);
  EXPECT_LT(
      testing::relative_error(sample_pending(solver, *half, x0, {}), sample(solver, *half, x0)),
      1e-6);
  const ModelPtr guided = guided_model(
      mixture_model(testing::small_mixture(6, 4, 2), fm_ot_schedule(), Prediction::velocity), 1.5,
      {{"class", torch::full({1}, 2, torch::kLong)}});
  const NsSolver own =
      testing::guided_in_the_first(make_solver("ab2", {6, fm_ot_schedule(), ""}), 3, 1.5);
  const Conditions labels = {{"class", torch::tensor({0, 1, 1}, torch::kLong)}};
  const auto noise = testing::starting_noise(*guided, 3);
  EXPECT_LT(testing::relative_error(sample_pending(own, VelocityField(guided), noise, labels),
                                    sample(own, VelocityField(guided), noise, labels)),
            1e-13);
}

// They wait for no device before the end, and then know where a state stopped being finite.
TEST(PendingStates, SayWhereAStateStoppedBeingFinite) {
  const NsSolver solver = make_solver("euler", {4, fm_ot_schedule(), ""});
  for (const size_t broken : {size_t{1}, size_t{3}, size_t{4}}) {
    const auto field =
        function_field([&](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
          auto u = x.clone();
          if (t[0].item<double>() >= 0.25 * static_cast<double>(broken)) u[2][1] = std::nan("");
          return u;
        });
    const auto start = torch::ones({5, 3}, torch::kFloat);
    PendingStates states(solver, pending_coefficients(solver, torch::kCPU, torch::kFloat), start);
    Counts counts;
    EXPECT_EQ(run_steps(*tensor_field(field, {}), solver, array_of(start), {0, 1, 2, 3, 4}, states,
                        &counts)
                  .count,
              4u);
    EXPECT_EQ(states.first_not_finite(), broken);
  }
}

}  // namespace
}  // namespace bespoke
