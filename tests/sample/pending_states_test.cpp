#include "bespoke/sample/pending_states.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/model/guidance.h"
#include "bespoke/solver/catalogue.h"
#include "self_guided.h"
#include "support.h"

namespace bespoke {
namespace {

TEST(PendingStates, GiveTheSamplesOfTheSampler) {
  for (const auto prediction : {Prediction::velocity, Prediction::noise}) {
    const ModelPtr model = mixture_model(testing::small_mixture(), vp_schedule(), prediction);
    const auto x0 = testing::starting_noise(*model, 5);
    const VelocityField field(model);
    for (const char* name : {"euler", "rk4", "dpm++3m"}) {
      const NsSolver solver = make_solver(name, {8, vp_schedule(), ""});
      std::vector<torch::Tensor> states, velocities;
      const auto keep = [&](const StepInfo& info) {
        states.push_back(info.x.clone());
        velocities.push_back(info.velocity.clone());
      };
      const auto x = sample_pending(solver, field, x0, {}, keep, 0);
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
  EXPECT_LT(testing::relative_error(sample_pending(solver, *half, x0, {}, nullptr, 0),
                                    sample(solver, *half, x0)),
            1e-6);
  const ModelPtr guided = guided_model(
      mixture_model(testing::small_mixture(6, 4, 2), fm_ot_schedule(), Prediction::velocity), 1.5,
      {{"class", torch::full({1}, 2, torch::kLong)}});
  const NsSolver own =
      testing::guided_in_the_first(make_solver("ab2", {6, fm_ot_schedule(), ""}), 3, 1.5);
  const Conditions labels = {{"class", torch::tensor({0, 1, 1}, torch::kLong)}};
  const auto noise = testing::starting_noise(*guided, 3);
  EXPECT_LT(
      testing::relative_error(sample_pending(own, VelocityField(guided), noise, labels, nullptr, 0),
                              sample(own, VelocityField(guided), noise, labels)),
      1e-13);
}

TEST(PendingStates, NameTheStepTimeAndSampleOfANaNAndOfAnOverflow) {
  const NsSolver solver = make_solver("euler", {4, fm_ot_schedule(), ""});
  const auto error_of = [&](double value) -> std::string {
    const auto field =
        function_field([=](const torch::Tensor& x, const torch::Tensor& t, const Conditions&) {
          auto u = x.clone();
          if (t[0].item<double>() > 0.4) u[2][1] = value;
          return u;
        });
    try {
      sample_pending(solver, *field, torch::full({5, 3}, 1.3e38, torch::kFloat), {}, nullptr, 10);
      return "nothing";
    } catch (const Error& error) {
      return error.kind() == ErrorKind::diverged ? error.what() : "another kind";
    }
  };
  EXPECT_NE(error_of(std::nan("")).find("NaN or infinity at step 3 of 4 (t = 0.5, sample 12)"),
            std::string::npos);
  EXPECT_NE(error_of(3e38).find("the state overflowed at step 4 of 4"), std::string::npos)
      << error_of(3e38);
}

}  // namespace
}  // namespace bespoke
