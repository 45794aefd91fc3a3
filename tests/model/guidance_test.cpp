// Guidance against its defining formula, computed from separate passes.

#include "bespoke/model/guidance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/tensor/combine.h"
#include "support.h"

namespace bespoke {
namespace {

using testing::relative_error;

// Counts the samples that pass through the model.
class CountingModel : public Model {
 public:
  explicit CountingModel(ModelPtr model) : model_(std::move(model)) {}
  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    samples += x.size(0);
    return model_->predict(x, t, conditions);
  }
  Prediction prediction() const override { return model_->prediction(); }
  SchedulePtr schedule() const override { return model_->schedule(); }
  std::vector<int64_t> sample_shape() const override { return model_->sample_shape(); }
  torch::ScalarType dtype() const override { return model_->dtype(); }

  mutable int64_t samples = 0;

 private:
  ModelPtr model_;
};

constexpr int64_t kCount = 4, kClasses = 2;

struct Problem {
  std::shared_ptr<CountingModel> model;
  torch::Tensor x, labels;
  Conditions null;

  explicit Problem(Prediction prediction, SchedulePtr schedule = fm_ot_schedule())
      : model(std::make_shared<CountingModel>(
            mixture_model(testing::small_mixture(6, 4, kClasses), schedule, prediction))),
        x(testing::starting_noise(*model, kCount)),
        labels(torch::tensor({0, 1, 0, 1}, torch::kLong)),
        null{{"class", torch::full({1}, kClasses, torch::kLong)}} {}

  torch::Tensor velocity(const ModelPtr& of, const torch::Tensor& t,
                         const torch::Tensor& classes) const {
    return VelocityField(of).velocity(x, t, {{"class", classes}});
  }
};

TEST(Guidance, ComposesWithEveryPredictionAndSchedule) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule(), cosine_schedule()}) {
    for (const auto& name : prediction_names()) {
      const Problem problem(parse_prediction(name), schedule);
      const auto t = torch::full({kCount}, 0.4, torch::kDouble);
      const auto conditional = problem.velocity(problem.model, t, problem.labels);
      const auto plain =
          problem.velocity(problem.model, t, torch::full({kCount}, kClasses, torch::kLong));
      const auto guided =
          problem.velocity(guided_model(problem.model, 1.5, problem.null), t, problem.labels);
      EXPECT_LT(relative_error(guided, 2.5 * conditional - 1.5 * plain), 1e-12) << name;
    }
  }
}

TEST(Guidance, FollowsItsWeightOverTimeSampleBySample) {
  const Problem problem(Prediction::velocity);
  GuidanceWeight weight;
  weight.points = {{0, 0}, {0.5, 2}, {1, 1}};
  weight.from = 0.2;
  weight.to = 0.8;
  const auto t = torch::tensor({0.1, 0.25, 0.75, 0.9}, torch::kDouble);
  const auto w = torch::tensor({0.0, 1.0, 1.5, 0.0}, torch::kDouble).unsqueeze(1);
  const auto conditional = problem.velocity(problem.model, t, problem.labels);
  const auto plain =
      problem.velocity(problem.model, t, torch::full({kCount}, kClasses, torch::kLong));
  problem.model->samples = 0;
  const auto guided =
      problem.velocity(guided_model(problem.model, weight, problem.null), t, problem.labels);
  EXPECT_LT(relative_error(guided, (1 + w) * conditional - w * plain), 1e-12);
  EXPECT_EQ(problem.model->samples, kCount + 2);  // two lie outside the interval
}

TEST(Guidance, SkipsTheUnconditionalPassOutsideTheInterval) {
  const Problem problem(Prediction::velocity);
  GuidanceWeight weight(2);
  weight.from = 0.3;
  const auto guided = guided_model(problem.model, weight, problem.null);
  problem.velocity(guided, torch::full({kCount}, 0.2, torch::kDouble), problem.labels);
  EXPECT_EQ(problem.model->samples, kCount);
  problem.velocity(guided, torch::full({kCount}, 0.3, torch::kDouble), problem.labels);
  EXPECT_EQ(problem.model->samples, 3 * kCount);
}

TEST(Guidance, DoesNotDependOnTheRestOfTheBatch) {
  const Problem problem(Prediction::velocity);
  GuidanceWeight weight(2);
  weight.from = 0.3;
  const auto guided = guided_model(problem.model, weight, problem.null);
  const auto mixed =
      problem.velocity(guided, torch::tensor({0.1, 0.6, 0.6, 0.1}, torch::kDouble), problem.labels);
  const auto uniform =
      problem.velocity(guided, torch::full({kCount}, 0.6, torch::kDouble), problem.labels);
  EXPECT_TRUE(torch::equal(mixed.slice(0, 1, 3), uniform.slice(0, 1, 3)));
}

TEST(Guidance, TheGradientInTimeIncludesThatOfTheWeight) {
  const Problem problem(Prediction::velocity);
  GuidanceWeight weight;
  weight.points = {{0, 0}, {1, 3}};
  const auto guided = guided_model(problem.model, weight, problem.null);
  const auto value = [&](const torch::Tensor& t) {
    return problem.velocity(guided, t, problem.labels).sum();
  };
  auto t = torch::full({kCount}, 0.4, torch::kDouble).requires_grad_();
  value(t).backward();
  constexpr double kStep = 1e-6;
  const auto shifted = [&](double by) {
    return value(torch::full({kCount}, 0.4 + by, torch::kDouble)).item<double>();
  };
  const double expected = (shifted(kStep) - shifted(-kStep)) / (2 * kStep);
  EXPECT_NEAR(t.grad().sum().item<double>(), expected, 1e-6 * std::abs(expected));
}

TEST(Guidance, NeedsTheConditionItHasANullFor) {
  const Problem problem(Prediction::velocity);
  const auto guided = guided_model(problem.model, 1, problem.null);
  EXPECT_THROW(guided->predict(problem.x, torch::zeros({kCount}, torch::kDouble), {}), Error);
}

TEST(Guidance, GivesEachSampleItsOwnWeight) {
  for (const auto& name : prediction_names()) {
    const Problem problem(parse_prediction(name), vp_schedule());
    const auto t = torch::full({kCount}, 0.4, torch::kDouble);
    const std::vector<double> own = {0.0, 0.5, 2.0, -1.0};
    const ModelPtr ranged = guided_model(problem.model, GuidanceRange{-1, 2}, problem.null);
    const auto guided = VelocityField(ranged).velocity(
        problem.x, t,
        {{"class", problem.labels}, {kGuidanceCondition, torch::tensor(own, torch::kDouble)}});
    for (int64_t i = 0; i < kCount; ++i) {
      const ModelPtr single =
          guided_model(problem.model, own[static_cast<size_t>(i)], problem.null);
      const auto alone = problem.velocity(single, t, problem.labels);
      EXPECT_TRUE(torch::equal(guided[i], alone[i])) << name << " " << i;
    }
  }
}

TEST(Guidance, ARangeSkipsWhatNeedsNoSecondPass) {
  const Problem problem(Prediction::velocity);
  GuidanceWeight weight = GuidanceRange{0, 2};
  weight.from = 0.3;
  const ModelPtr guided = guided_model(problem.model, weight, problem.null);
  const Conditions conditions = {
      {"class", problem.labels},
      {kGuidanceCondition, torch::tensor({0.0, 1.0, 2.0, 0.0}, torch::kDouble)}};
  guided->predict(problem.x, torch::full({kCount}, 0.5, torch::kDouble), conditions);
  EXPECT_EQ(problem.model->samples, kCount + 2);
  problem.model->samples = 0;
  guided->predict(problem.x, torch::full({kCount}, 0.2, torch::kDouble), conditions);
  EXPECT_EQ(problem.model->samples, kCount);
  EXPECT_THROW(guided->predict(problem.x, torch::full({kCount}, 0.5, torch::kDouble),
                               {{"class", problem.labels}}),
               Error);
}

TEST(Guidance, WeightsBelongToSeedAndNumberAlone) {
  const GuidanceRange range{0.5, 3};
  const auto all = guidance_weights(range, 7, 0, 64);
  EXPECT_TRUE(torch::equal(guidance_weights(range, 7, 20, 13), all.slice(0, 20, 33)));
  EXPECT_FALSE(torch::equal(guidance_weights(range, 8, 0, 64), all));
  EXPECT_GE(all.min().item<double>(), 0.5);
  EXPECT_LE(all.max().item<double>(), 3);
  EXPECT_NEAR(all.mean().item<double>(), 1.75, 0.05);
}

}  // namespace
}  // namespace bespoke
