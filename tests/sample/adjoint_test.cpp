#include "bespoke/sample/adjoint.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "bespoke/distill/family.h"
#include "bespoke/model/function_model.h"
#include "bespoke/sample/sampler.h"
#include "problem.h"

namespace bespoke {
namespace {

using testing::small_mixture;
using testing::start_solver;
using testing::starting_noise;

struct Setting {
  SchedulePtr schedule;
  Prediction prediction;
};

std::vector<Setting> settings() {
  return {{fm_ot_schedule(), Prediction::velocity},
          {vp_schedule(), Prediction::noise},
          {cosine_schedule(), Prediction::v}};
}

torch::Tensor some_cotangent(const torch::Tensor& x0) {
  return normal_noise(6, 0, x0.size(0), {x0.size(1)});
}

torch::Tensor rows_of(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                      Counts* counts) {
  return sweep_back(run_trajectory(solver, field, x0, {}, counts), some_cotangent(x0), counts);
}

// <cotangent, x_n> of each sample.
torch::Tensor products(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                       const torch::Tensor& cotangent) {
  return (sample(solver, field, x0) * cotangent).sum(1);
}

TEST(Adjoint, MatchesDifferences) {
  for (const auto& setting : settings()) {
    const ModelPtr model = mixture_model(small_mixture(), setting.schedule, setting.prediction);
    const VelocityField field(model);
    const auto x0 = starting_noise(*model, 3);
    const NsSolver solver = start_solver("midpoint", 4, setting.schedule);
    Counts counts;
    const auto rows = rows_of(solver, field, x0, &counts);
    const auto values = coefficients_of(solver);
    constexpr double kStep = 1e-6;
    for (size_t c = 0; c < values.size(); ++c) {
      if (c == 4) continue;  // t_n, checked below
      auto up = values, down = values;
      up[c] += kStep;
      down[c] -= kStep;
      const auto cotangent = some_cotangent(x0);
      const auto difference = (products(solver_of(4, up), field, x0, cotangent) -
                               products(solver_of(4, down), field, x0, cotangent)) /
                              (2 * kStep);
      const auto column = rows.select(1, static_cast<int64_t>(c));
      const double scale = 1 + column.abs().max().item<double>();
      EXPECT_LT((column - difference).abs().max().item<double>(), 1e-6 * scale)
          << to_string(setting.prediction) << " coefficient " << c;
    }
    EXPECT_EQ(rows.select(1, 4).abs().max().item<double>(), 0);
  }
}

// The whole sampling as one graph with the coefficients as its leaves.
torch::Tensor autograd_row(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                           const torch::Tensor& cotangent) {
  const torch::Tensor c = torch::tensor(coefficients_of(solver), torch::kDouble).requires_grad_();
  const int64_t n = solver.nfe();
  std::vector<torch::Tensor> u;
  const torch::Tensor start = c[c.numel() - 1] * x0;
  torch::Tensor x = start;
  int64_t b = 2 * n + 1;
  for (int64_t i = 0; i < n; ++i) {
    u.push_back(field.velocity(x, c.slice(0, i, i + 1).expand({x0.size(0)}), {}));
    x = c[n + 1 + i] * start;
    for (const auto& velocity : u) x = x + c[b++] * velocity;
  }
  (x * cotangent).sum().backward();
  return c.grad();
}

TEST(Adjoint, MatchesAutogradThroughTheWholeSampling) {
  for (const auto& setting : settings()) {
    const ModelPtr model = mixture_model(small_mixture(), setting.schedule, setting.prediction);
    const VelocityField field(model);
    const auto x0 = starting_noise(*model, 3);
    const NsSolver solver = start_solver("ab2", 5, setting.schedule);
    Counts counts;
    const auto rows = rows_of(solver, field, x0, &counts);
    for (int64_t sample = 0; sample < 3; ++sample) {
      const auto expected =
          autograd_row(solver, field, x0.slice(0, sample, sample + 1), some_cotangent(x0)[sample]);
      EXPECT_LT(testing::relative_error(rows[sample], expected), 1e-12);
    }
  }
}

TEST(Adjoint, CountsWhatItSpends) {
  const ModelPtr model = mixture_model(small_mixture(), vp_schedule(), Prediction::noise);
  Counts counts;
  rows_of(start_solver("midpoint", 6, vp_schedule()), VelocityField(model),
          starting_noise(*model, 7), &counts);
  EXPECT_EQ(counts.forwards, 7 * 6);
  EXPECT_EQ(counts.vjps, 7 * 6);
}

TEST(Adjoint, BitsDoNotDependOnBatchOrThreads) {
  const ModelPtr model = mixture_model(small_mixture(37), vp_schedule(), Prediction::noise);
  const VelocityField field(model);
  const auto x0 = starting_noise(*model, 9);
  const NsSolver solver = start_solver("midpoint", 4, vp_schedule());
  Counts counts;
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const auto all = rows_of(solver, field, x0, &counts);
  at::set_num_threads(1);
  EXPECT_TRUE(torch::equal(all, rows_of(solver, field, x0, &counts)));
  at::set_num_threads(threads);
  const auto some = rows_of(solver, field, x0.slice(0, 0, 4), &counts);
  EXPECT_TRUE(torch::equal(all.slice(0, 0, 4), some));
}

TEST(Adjoint, AccumulatesInnerProductsOfFloatStatesInDouble) {
  const ModelPtr wide = mixture_model(small_mixture(512), fm_ot_schedule(), Prediction::velocity);
  const ModelPtr narrow =
      mixture_model(small_mixture(512), fm_ot_schedule(), Prediction::velocity, torch::kFloat);
  const auto x0 = starting_noise(*wide, 4);
  const NsSolver solver = start_solver("midpoint", 4);
  Counts counts;
  const auto expected = rows_of(solver, VelocityField(wide), x0, &counts);
  const auto rows = rows_of(solver, VelocityField(narrow), x0.to(torch::kFloat), &counts);
  EXPECT_EQ(rows.scalar_type(), torch::kDouble);
  EXPECT_LT(testing::relative_error(rows, expected), 2e-6);
}

// u = 3: depends on nothing, as far as autograd can see.
TEST(Adjoint, AFieldNeedNotDependOnStateOrTime) {
  const auto constant =
      function_field([](const torch::Tensor& x, const torch::Tensor&, const Conditions&) {
        return torch::full(x.sizes(), 3.0, x.options().requires_grad(false));
      });
  const auto x0 = torch::ones({2, 3}, torch::kDouble);
  Counts counts;
  const auto rows = sweep_back(run_trajectory(start_solver("euler", 3), *constant, x0, {}, &counts),
                               torch::ones_like(x0), &counts);
  EXPECT_EQ(rows[1][4 + 2].item<double>(), 3);  // d a_2 = <1, x_0>
  EXPECT_EQ(rows[1][7 + 5].item<double>(), 9);  // d b_22 = <1, u_2>
  EXPECT_EQ(rows[1][7 + 0].item<double>(), 0);  // x_1 changes no velocity
}

}  // namespace
}  // namespace bespoke
