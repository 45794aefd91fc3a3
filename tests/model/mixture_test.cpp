#include "bespoke/model/mixture.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "support.h"

namespace bespoke {
namespace {

using testing::relative_error;
using testing::small_mixture;
using testing::times;

std::vector<Prediction> all_predictions() {
  return {Prediction::velocity, Prediction::noise, Prediction::data,
          Prediction::v,        Prediction::edm,   Prediction::score};
}

// The posterior mean written out the slow way, in LibTorch operations.
torch::Tensor direct_data(const Mixture& mixture, const Schedule& schedule, const torch::Tensor& x,
                          double t) {
  const double a = schedule.alpha(t), s = schedule.sigma(t);
  const auto deviations = torch::tensor(mixture.deviations, torch::kDouble);
  const auto v = a * a * deviations.pow(2) + s * s;                // [K]
  const auto y = x.unsqueeze(1) - a * mixture.means.unsqueeze(0);  // [B, K, d]
  const auto log_weight = torch::tensor(mixture.weights, torch::kDouble).log() -
                          0.5 * static_cast<double>(x.size(1)) * v.log() -
                          y.pow(2).sum(2) / (2 * v);  // [B, K]
  const auto gain = (a * deviations.pow(2) / v).reshape({1, -1, 1});
  return (torch::softmax(log_weight, 1).unsqueeze(2) * (mixture.means + gain * y)).sum(1);
}

TEST(Mixture, DataIsThePosteriorMean) {
  Mixture mixture = small_mixture();
  mixture.weights = {0.1, 0.4, 0.3, 0.2};
  for (const auto& name : {"fm-ot", "cosine", "vp", "edm", "ddpm-linear"}) {
    const SchedulePtr schedule = make_schedule(name);
    const ModelPtr model = mixture_model(mixture, schedule, Prediction::data);
    const auto x = testing::starting_noise(*model, 9);
    for (const double t : {0.02, 0.4, 0.9}) {
      const auto expected = direct_data(mixture, *schedule, x, t);
      EXPECT_LT(relative_error(model->predict(x, times(9, t), {}), expected), 1e-12) << name << t;
    }
  }
}

TEST(Mixture, PredictionsAgreeWithOneAnother) {
  const Mixture mixture = small_mixture();
  for (const auto& name : {"fm-ot", "cosine", "vp", "edm"}) {
    const SchedulePtr schedule = make_schedule(name);
    const auto x = normal_noise(1, 0, 5, {6});
    const double t = 0.37;
    const SchedulePoint p = schedule->at(t);
    const auto data =
        mixture_model(mixture, schedule, Prediction::data)->predict(x, times(5, t), {});
    const auto noise = (x - p.alpha * data) / p.sigma;
    for (const Prediction prediction : all_predictions()) {
      const auto f = mixture_model(mixture, schedule, prediction)->predict(x, times(5, t), {});
      const auto d = data_from(prediction, p), e = noise_from(prediction, p);
      EXPECT_LT(relative_error(d.state * x + d.output * f, data), 1e-10) << to_string(prediction);
      EXPECT_LT(relative_error(e.state * x + e.output * f, noise), 1e-10) << to_string(prediction);
    }
  }
}

TEST(Mixture, VelocityIsFiniteWhereSigmaDotIsNot) {
  const ModelPtr model = mixture_model(small_mixture(), vp_schedule(), Prediction::velocity);
  const auto u = model->predict(normal_noise(1, 0, 3, {6}), times(3, 1.0), {});
  EXPECT_TRUE(torch::isfinite(u).all().item<bool>());
}

TEST(Mixture, ASingleGaussianFlowsByItsClosedForm) {
  // x(t) = alpha m + (x_0 - alpha_0 m) sqrt(v / v_0): its velocity must be the model's.
  Mixture gaussian{torch::full({1, 4}, 0.3, torch::kDouble), {0.7}, {1}, {}};
  const SchedulePtr schedule = vp_schedule();
  const ModelPtr model = mixture_model(gaussian, schedule, Prediction::velocity);
  const auto x0 = normal_noise(2, 0, 3, {4});
  const auto flow = [&](double t) {
    const auto v = [&](double time) {
      return std::pow(schedule->alpha(time) * 0.7, 2) + std::pow(schedule->sigma(time), 2);
    };
    return schedule->alpha(t) * 0.3 + (x0 - schedule->alpha(0) * 0.3) * std::sqrt(v(t) / v(0));
  };
  for (const double t : {0.1, 0.5, 0.9}) {
    const double h = 1e-5;
    const auto u = model->predict(flow(t), times(3, t), {});
    EXPECT_LT(relative_error((flow(t + h) - flow(t - h)) / (2 * h), u), 1e-7);
  }
}

// <c, f(x, t)> differentiated by the backward pass and by central differences.
void expect_gradients(const Model& model, const Conditions& conditions, double t) {
  const auto x = testing::starting_noise(model, 4, 3);
  const auto c = normal_noise(4, 0, 4, model.sample_shape());
  auto x_leaf = x.clone().requires_grad_();
  auto t_leaf = times(4, t).requires_grad_();
  (model.predict(x_leaf, t_leaf, conditions) * c).sum().backward();
  const auto value = [&](const torch::Tensor& at_x, double at_t) {
    return (model.predict(at_x, times(4, at_t), conditions) * c).sum(1);
  };
  const double h = 1e-6;
  const auto t_expected = (value(x, t + h) - value(x, t - h)) / (2 * h);
  EXPECT_LT(relative_error(t_leaf.grad(), t_expected), 1e-6) << to_string(model.prediction());
  const double dx = 1e-5 * model.schedule()->source_std();
  for (int64_t i = 0; i < x.size(1); ++i) {
    auto step = torch::zeros_like(x);
    step.select(1, i).fill_(dx);
    const auto expected = (value(x + step, t) - value(x - step, t)) / (2 * dx);
    EXPECT_LT(relative_error(x_leaf.grad().select(1, i), expected), 1e-6)
        << to_string(model.prediction()) << " x" << i;
  }
}

TEST(Mixture, GradientsMatchFiniteDifferences) {
  for (const auto& name : {"fm-ot", "cosine", "vp", "edm"}) {
    for (const Prediction prediction : all_predictions()) {
      expect_gradients(*mixture_model(small_mixture(), make_schedule(name), prediction), {}, 0.43);
    }
  }
  const ModelPtr conditional =
      mixture_model(small_mixture(6, 4, 2), fm_ot_schedule(), Prediction::velocity);
  expect_gradients(*conditional, {{"class", torch::tensor({0, 1, 2, 1}, torch::kLong)}}, 0.6);
}

TEST(Mixture, GradientsOutliveTheModel) {
  auto x = normal_noise(3, 0, 2, {6}).requires_grad_();
  torch::Tensor out;
  {
    const ModelPtr model = mixture_model(small_mixture(), fm_ot_schedule(), Prediction::data);
    out = model->predict(x, times(2, 0.5), {});
  }
  out.sum().backward();
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
}

TEST(Mixture, ClassesUseTheirOwnComponents) {
  const Mixture mixture = small_mixture(6, 4, 2);
  const ModelPtr model = mixture_model(mixture, vp_schedule(), Prediction::data);
  const auto x = normal_noise(5, 0, 3, {6});
  const auto with = [&](int64_t label) {
    return model->predict(x, times(3, 0.5), {{"class", torch::full({3}, label, torch::kLong)}});
  };
  // Class 1 is the mixture of components 1 and 3 alone; the null class is all of them.
  Mixture part{mixture.means.index_select(0, torch::tensor({1, 3}, torch::kLong)),
               {mixture.deviations[1], mixture.deviations[3]},
               {1, 1},
               {}};
  const auto alone =
      mixture_model(part, vp_schedule(), Prediction::data)->predict(x, times(3, 0.5), {});
  EXPECT_LT(relative_error(with(1), alone), 1e-13);
  EXPECT_TRUE(torch::equal(with(2), model->predict(x, times(3, 0.5), {})));
  EXPECT_GT(relative_error(with(0), with(2)), 1e-3);
  EXPECT_THROW(with(3), Error);
  EXPECT_THROW(with(-1), Error);
}

TEST(Mixture, BitsDoNotDependOnBatchOrThreads) {
  for (const Prediction prediction : all_predictions()) {
    const ModelPtr model =
        mixture_model(small_mixture(37, 5), vp_schedule(), prediction, torch::kFloat);
    const auto x = normal_noise(6, 0, 33, {37}).to(torch::kFloat);
    const auto t = torch::linspace(0.01, 0.99, 33, torch::kDouble);
    const int threads = at::get_num_threads();
    at::set_num_threads(2);
    const auto all = model->predict(x, t, {});
    at::set_num_threads(1);
    EXPECT_TRUE(torch::equal(all, model->predict(x, t, {})));
    at::set_num_threads(threads);
    for (const int64_t i : {0, 20, 32}) {
      EXPECT_TRUE(
          torch::equal(all[i], model->predict(x.slice(0, i, i + 1), t.slice(0, i, i + 1), {})[0]));
    }
  }
}

TEST(Mixture, RefusesImpossibleParameters) {
  Mixture mixture = small_mixture();
  mixture.deviations[1] = 0;
  EXPECT_THROW(mixture_model(mixture, fm_ot_schedule(), Prediction::data), Error);
  RandomMixtureOptions options;
  options.classes = 100;
  EXPECT_THROW(random_mixture(options), Error);
}

TEST(Guidance, MixesConditionalAndUnconditional) {
  const ModelPtr model = mixture_model(small_mixture(6, 4, 2), vp_schedule(), Prediction::noise);
  const Conditions null = {{"class", torch::full({1}, 2, torch::kLong)}};
  const Conditions labels = {{"class", torch::tensor({0, 1, 1}, torch::kLong)}};
  const auto x = normal_noise(7, 0, 3, {6});
  const auto conditional = model->predict(x, times(3, 0.5), labels);
  const auto free = model->predict(x, times(3, 0.5), {});
  const double w = 2;
  const auto guided = guided_model(model, w, null);
  EXPECT_LT(
      relative_error(guided->predict(x, times(3, 0.5), labels), (1 + w) * conditional - w * free),
      1e-13);
  EXPECT_LT(
      relative_error(guided_model(model, 0, null)->predict(x, times(3, 0.5), labels), conditional),
      1e-15);
  EXPECT_THROW(guided->predict(x, times(3, 0.5), {}), Error);
}

TEST(Guidance, GuidingAnyPredictionGuidesTheVelocity) {
  const Conditions null = {{"class", torch::full({1}, 2, torch::kLong)}};
  const Conditions labels = {{"class", torch::tensor({0, 1, 1}, torch::kLong)}};
  const auto x = normal_noise(7, 0, 3, {6});
  torch::Tensor expected;
  for (const Prediction prediction : all_predictions()) {
    const ModelPtr model = mixture_model(small_mixture(6, 4, 2), cosine_schedule(), prediction);
    const VelocityField field(guided_model(model, 3, null));
    const auto u = field.velocity(x, times(3, 0.4), labels);
    if (!expected.defined()) expected = u;
    EXPECT_LT(relative_error(u, expected), 1e-11) << to_string(prediction);
  }
}

}  // namespace
}  // namespace bespoke
