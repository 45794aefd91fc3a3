#include "bespoke/recipe/learning_sampler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/psnr.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/sample/reference.h"
#include "bespoke/solver/catalogue.h"
#include "support.h"

namespace bespoke {
namespace {

ModelPtr learnable_model() {
  return mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
}

// The model with its calls counted, in single samples.
ModelPtr counting_model(const ModelPtr& model, int64_t* calls) {
  return function_model(model->prediction(), model->schedule(), model->sample_shape(),
                        [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions& y) {
                          *calls += x.size(0);
                          return model->predict(x, t, y);
                        });
}

double decibels(const torch::Tensor& x, const torch::Tensor& truth) {
  return (10 * torch::log10(4 / (x - truth).pow(2).flatten(1).mean(1))).mean().item<double>();
}

TEST(LearningSampler, DrawsTheFirstBetterAndTheOthersInFewEvaluations) {
  int64_t calls = 0;
  const ModelPtr model = counting_model(learnable_model(), &calls);
  const torch::Tensor noise = starting_noise(*model, 5, 0, 24).to(torch::kFloat);
  LearningOptions options;
  options.samples = 4;
  LearningSampler sampler(model, options);
  const torch::Tensor x = sampler.sample(noise);
  ASSERT_TRUE(sampler.learnt());
  EXPECT_EQ(sampler.learnt()->samples, 4);
  EXPECT_EQ(calls, sampler.learnt()->calls + 20 * 8);
  EXPECT_LE(sampler.learnt()->calls, 4 * (30 + 8 * 8));
  const torch::Tensor truth = reference(model, noise).x;
  const double first = decibels(x.slice(0, 0, 4), truth.slice(0, 0, 4));
  const double others = decibels(x.slice(0, 4), truth.slice(0, 4));
  const NsSolver usual = make_solver("dpm++2m", {8, fm_ot_schedule(), "lambda-range"});
  const torch::Tensor drawn = sample(usual, VelocityField(model), noise);
  EXPECT_GT(first, 60);
  EXPECT_GT(others, decibels(drawn.slice(0, 4), truth.slice(0, 4)) + 10);
  // What it says of itself leaves each sample out of the last step alone: on networks it is right
  // within some decibels, on a mixture as smooth as this one it flatters by up to 16.
  const double told = psnr_of_loss(sampler.learnt()->loss, 2);
  EXPECT_GT(told, others - 4);
  EXPECT_LT(told, others + 18);
}

// However samples are asked for, they and what is learnt are the same, and nothing is learnt where
// nobody asks for more.
TEST(LearningSampler, GoesOnFromCallToCall) {
  const ModelPtr model = learnable_model();
  const torch::Tensor noise = starting_noise(*model, 5, 0, 12).to(torch::kFloat);
  LearningOptions options;
  options.samples = 5;
  LearningSampler whole(model, options), parts(model, options);
  const torch::Tensor expected = whole.sample(noise);
  const torch::Tensor one = parts.sample(noise.slice(0, 0, 2));
  const torch::Tensor two = parts.sample(noise.slice(0, 2, 5));
  EXPECT_FALSE(parts.learnt());
  const torch::Tensor three = parts.sample(noise.slice(0, 5, 7));
  EXPECT_TRUE(parts.learnt());
  const torch::Tensor four = parts.sample(noise.slice(0, 7));
  EXPECT_LT((torch::cat({one, two, three, four}) - expected).abs().max().item<double>(), 1e-4);
  EXPECT_EQ(parts.learnt()->solver.name, whole.learnt()->solver.name);
}

// A call that fails teaches nothing and breaks nothing.
TEST(LearningSampler, LearnsNothingFromACallThatFails) {
  const ModelPtr sound = learnable_model();
  const auto broken = std::make_shared<bool>(true);
  const ModelPtr model =
      function_model(Prediction::velocity, sound->schedule(), sound->sample_shape(),
                     [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions& y) {
                       const torch::Tensor u = sound->predict(x, t, y);
                       return *broken ? u * std::numeric_limits<double>::quiet_NaN() : u;
                     });
  const torch::Tensor noise = starting_noise(*model, 5, 0, 6).to(torch::kFloat);
  LearningOptions options;
  options.samples = 3;
  LearningSampler sampler(model, options), other(sound, options);
  EXPECT_THROW(sampler.sample(noise), Error);
  EXPECT_FALSE(sampler.learnt());
  *broken = false;
  const double error = (sampler.sample(noise) - other.sample(noise)).abs().max().item<double>();
  EXPECT_LT(error, 1e-4);
}

TEST(LearningSampler, RefusesNoSamplesToLearnFrom) {
  LearningOptions options;
  options.samples = 0;
  EXPECT_THROW(LearningSampler(learnable_model(), options), Error);
}

}  // namespace
}  // namespace bespoke
