// Two steps of DDIM as one: against the definition of a step, the closed forms of a Gaussian, and
// modules that are trained as they were exported.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <cmath>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "bespoke/model/function_model.h"
#include "bespoke/solver/grid.h"
#include "teachers/halving.h"
#include "teachers/script_student.h"
#include "teachers/weights.h"

namespace bespoke {
namespace {

using testing::refusal;
using testing::TemporaryFolder;

const std::vector<Prediction> kPredictions = {Prediction::velocity, Prediction::noise,
                                              Prediction::data, Prediction::v, Prediction::edm};

std::vector<SchedulePtr> schedules_to_halve() {
  return {fm_ot_schedule(), cosine_schedule(), vp_schedule(), edm_schedule(20)};
}

// A noise prediction has no step from where alpha = 0.
double first_time(Prediction prediction) { return prediction == Prediction::noise ? 0.1 : 0; }

std::vector<double> times_from(double begin, int steps, double end = 1) {
  std::vector<double> times;
  for (int i = 0; i <= steps; ++i) times.push_back(begin + (end - begin) * i / steps);
  return times;
}

TEST(DdimStep, HoldsDataAndNoise) {
  constexpr double kData = 0.7, kNoise = -1.3;
  for (const auto& schedule : schedules_to_halve()) {
    for (const auto prediction : kPredictions) {
      for (const double t : {first_time(prediction), 0.4, 0.85}) {
        const SchedulePoint from = schedule->at(t), to = schedule->at(t + 0.1);
        const auto output = output_in_terms_of_data_and_noise(prediction, from);
        const Affine<double> step = ddim_step(prediction, from, to);
        const double x = from.alpha * kData + from.sigma * kNoise;
        EXPECT_NEAR(step.state * x + step.output * (output.data * kData + output.noise * kNoise),
                    to.alpha * kData + to.sigma * kNoise, 1e-9)
            << schedule->name() << " " << to_string(prediction) << " from " << t;
      }
    }
  }
}

TEST(HalvedSteps, LeadInOneStepToWhereTwoLead) {
  const auto f = [](double x, double t) { return std::sin(3 * x) + t; };  // a network
  for (const auto& schedule : schedules_to_halve()) {
    for (const auto prediction : kPredictions) {
      const auto steps = halved_steps(prediction, *schedule, times_from(first_time(prediction), 8),
                                      HalvingWeight::truncated_snr);
      ASSERT_EQ(steps.size(), 4u);
      for (const HalvedStep& step : steps) {
        const double x = 0.8;
        const SchedulePoint from = schedule->at(step.from), middle = schedule->at(step.middle),
                            to = schedule->at(step.to);
        const auto move = [&](const SchedulePoint& a, const SchedulePoint& b, double state,
                              double output) {
          const Affine<double> one = ddim_step(prediction, a, b);
          return one.state * state + one.output * output;
        };
        const double first = f(x, step.from);
        const double halfway = step.to_middle.state * x + step.to_middle.output * first;
        EXPECT_NEAR(halfway, move(from, middle, x, first), 1e-12);
        const double second = f(halfway, step.middle);
        const double target = step.state * x + step.first * first + step.second * second;
        const double arrived = move(middle, to, halfway, second);
        EXPECT_NEAR(move(from, to, x, target), arrived, 1e-9 * (1 + std::abs(arrived)))
            << schedule->name() << " " << to_string(prediction) << " from " << step.from;
      }
    }
  }
}

TEST(HalvedSteps, WeighErrorsInTheData) {
  // Velocity on FM-OT: an error of 1 in the velocity is one of sigma in the data.
  const auto schedule = fm_ot_schedule();
  for (const auto weight : {HalvingWeight::truncated_snr, HalvingWeight::snr_plus_one}) {
    for (const HalvedStep& step :
         halved_steps(Prediction::velocity, *schedule, times_from(0, 16), weight)) {
      const double alpha = step.from * step.from, sigma = (1 - step.from) * (1 - step.from);
      EXPECT_NEAR(step.weight,
                  weight == HalvingWeight::truncated_snr ? std::max(alpha, sigma) : alpha + sigma,
                  1e-12);
    }
  }
}

TEST(HalvedSteps, RefuseWhatHasNoStep) {
  const auto halve = [](Prediction prediction, const std::vector<double>& times) {
    return refusal(
        [&] { halved_steps(prediction, *fm_ot_schedule(), times, HalvingWeight::truncated_snr); });
  };
  EXPECT_NE(halve(Prediction::noise, {0, 0.5, 1}).find("says nothing of the data where alpha = 0"),
            std::string::npos);
  EXPECT_NE(halve(Prediction::velocity, {0, 0.3, 0.6, 1}).find("found 4 times"), std::string::npos);
  EXPECT_NE(halve(Prediction::velocity, {0.5}).find("found 1 times"), std::string::npos);
  EXPECT_EQ(every_second({0, 0.1, 0.4, 0.5, 1}), (std::vector<double>{0, 0.4, 1}));
}

// Data N(0, s^2): D = alpha s^2 x / (alpha^2 s^2 + sigma^2), and a step of DDIM multiplies x by
// (alpha alpha' s^2 + sigma sigma') / (alpha^2 s^2 + sigma^2).
constexpr double kDeviation = 0.6;

double gaussian_variance(const SchedulePoint& p) {
  return p.alpha * p.alpha * kDeviation * kDeviation + p.sigma * p.sigma;
}

double gaussian_factor(const SchedulePoint& from, const SchedulePoint& to) {
  return (from.alpha * to.alpha * kDeviation * kDeviation + from.sigma * to.sigma) /
         gaussian_variance(from);
}

// What a perfect network answers, over x.
double gaussian_answer(Prediction prediction, const SchedulePoint& p) {
  const auto weights = output_in_terms_of_data_and_noise(prediction, p);
  return (weights.data * p.alpha * kDeviation * kDeviation + weights.noise * p.sigma) /
         gaussian_variance(p);
}

// A model whose answer is x times a number that depends on the time.
ModelPtr linear_model(Prediction prediction, const SchedulePtr& schedule,
                      const std::function<double(double)>& slope) {
  return function_model(prediction, schedule, {8}, [=](const auto& x, const auto& t, const auto&) {
    torch::Tensor factors = torch::empty({x.size(0), 1}, torch::kDouble);
    for (int64_t i = 0; i < x.size(0); ++i) factors[i] = slope(t[i].template item<double>());
    return (x * factors).to(x.scalar_type());
  });
}

struct GaussianCase {
  SchedulePtr schedule;
  Prediction prediction;
  std::vector<double> times;

  ModelPtr teacher() const {
    return linear_model(prediction, schedule,
                        [*this](double t) { return gaussian_answer(prediction, schedule->at(t)); });
  }
  // The answer that gets in one step to where the teacher gets in two.
  double halved_answer(double from, double middle, double to) const {
    const SchedulePoint a = schedule->at(from), b = schedule->at(middle), c = schedule->at(to);
    const Affine<double> once = ddim_step(prediction, a, c);
    return (gaussian_factor(a, b) * gaussian_factor(b, c) - once.state) / once.output;
  }
};

std::vector<GaussianCase> gaussian_cases() {
  return {{fm_ot_schedule(), Prediction::velocity, times_from(0, 4)},
          {cosine_schedule(), Prediction::v, times_from(0, 4)},
          {fm_ot_schedule(), Prediction::data, times_from(0, 4, 0.95)},
          {vp_schedule(), Prediction::noise, times_from(0.3, 4)}};
}

Batch gaussian_batch(int64_t count) {
  return {kDeviation * torch::randn({count, 8}), torch::zeros({count}, torch::kLong)};
}

TEST(HalvingLoss, IsZeroForTheTwoStepsOfAGaussian) {
  for (const GaussianCase& c : gaussian_cases()) {
    const auto steps =
        halved_steps(c.prediction, *c.schedule, c.times, HalvingWeight::truncated_snr);
    const ModelPtr student = linear_model(c.prediction, c.schedule, [&](double t) {
      const HalvedStep& step = t < c.times[2] - 1e-9 ? steps[0] : steps[1];
      return c.halved_answer(step.from, step.middle, step.to);
    });
    torch::manual_seed(1);
    EXPECT_LT(halving_loss(c.teacher(), student, steps, {})(gaussian_batch(64)).item<double>(),
              1e-9)
        << c.schedule->name() << " " << to_string(c.prediction);
  }
}

TEST(HalvingLoss, OfTheTeacherItselfIsThatOfAGaussian) {
  for (const GaussianCase& c : gaussian_cases()) {
    const auto steps =
        halved_steps(c.prediction, *c.schedule, c.times, HalvingWeight::snr_plus_one);
    double expected = 0;
    for (const HalvedStep& step : steps) {
      const double off = gaussian_answer(c.prediction, step.point) -
                         c.halved_answer(step.from, step.middle, step.to);
      expected += step.weight * off * off * gaussian_variance(step.point) / 2;
    }
    torch::manual_seed(2);
    const double found =
        halving_loss(c.teacher(), c.teacher(), steps, {})(gaussian_batch(8192)).item<double>();
    EXPECT_NEAR(found, expected, 0.05 * expected)
        << c.schedule->name() << " " << to_string(c.prediction);
  }
}

TEST(HalvingLoss, GivesEachSampleItsOwnConditions) {
  const auto schedule = fm_ot_schedule();
  const auto steps =
      halved_steps(Prediction::velocity, *schedule, {0, 0.5, 1}, HalvingWeight::truncated_snr);
  std::vector<torch::Tensor> seen;
  const ModelPtr model = function_model(Prediction::velocity, schedule, {8},
                                        [&](const auto& x, const auto&, const auto& given) {
                                          seen.push_back(given.at("y"));
                                          return torch::zeros_like(x);
                                        });
  const torch::Tensor rows = torch::tensor({30, 10, 20}, torch::kLong);
  halving_loss(model, model, steps,
               {{"y", rows}})({torch::zeros({2, 8}), torch::tensor({2, 0}, torch::kLong)});
  ASSERT_EQ(seen.size(), 3u);
  for (const auto& given : seen) EXPECT_TRUE(given.equal(torch::tensor({20, 30}, torch::kLong)));
}

class ScriptStudentTest : public ::testing::Test {
 protected:
  // x times a matrix plus t, the matrix in half precision in the file.
  ModelCard saved(const std::string& name, bool frozen = false) const {
    torch::jit::Module module("Net");
    module.register_parameter("matrix", torch::eye(4), false);
    module.define("def forward(self, x, t):\n    return x.matmul(self.matrix) + t.unsqueeze(1)\n");
    module.eval();
    if (frozen) module = torch::jit::freeze(module);
    module.to(torch::kHalf);
    ModelCard card;
    card.format = kScriptFormat;
    card.weights = folder_.path() / name;
    card.sample_shape = {4};
    card.schedule = fm_ot_schedule();
    module.save(card.weights.string());
    return card;
  }

  torch::Tensor answer(const ModelPtr& model, double t = 0.5) const {
    return model->predict(torch::ones({3, 4}), torch::full({3}, t, torch::kDouble), {});
  }

  TemporaryFolder folder_;
};

TEST_F(ScriptStudentTest, TrainsTheWeightsOfTheModule) {
  const ModelCard card = saved("net.pt");
  ScriptStudent student(card, torch::kCPU);
  const ModelPtr model = student.model(card, torch::kFloat);
  EXPECT_EQ(copy_weights(student).scalar_type(), torch::kFloat);
  EXPECT_TRUE(answer(model).allclose(torch::full({3, 4}, 1.5)));
  answer(model).sum().backward();
  EXPECT_TRUE(student.parameters()[0].grad().allclose(torch::full({4, 4}, 3.)));
  set_weights(student, 2 * torch::eye(4).reshape({-1}));
  EXPECT_TRUE(answer(model).allclose(torch::full({3, 4}, 2.5))) << "the module has new weights";
}

TEST_F(ScriptStudentTest, WritesTheFileWithOtherWeightsInItsOwnPrecision) {
  const ModelCard card = saved("net.pt");
  const ScriptStudent student(card, torch::kCPU);
  std::istringstream stream(student.file_with(3 * torch::eye(4).reshape({-1})));
  const torch::jit::Module module = torch::jit::load(stream);
  const torch::Tensor matrix = module.attr("matrix").toTensor();
  EXPECT_EQ(matrix.scalar_type(), torch::kHalf);
  EXPECT_TRUE(matrix.to(torch::kFloat).equal(3 * torch::eye(4)));
}

TEST_F(ScriptStudentTest, MultipliesInHalfPrecisionWithTheWeightsOfTheMoment) {
  const ModelCard card = saved("net.pt");
  ScriptStudent student(card, torch::kCPU);
  const ModelPtr model = student.model(card, torch::kBFloat16);
  set_weights(student, 1.001 * torch::eye(4).reshape({-1}));
  EXPECT_TRUE(answer(model, 0).to(torch::kFloat).equal(torch::ones({3, 4}))) << "8 bits of 1.001";
  set_weights(student, 2 * torch::eye(4).reshape({-1}));
  const torch::Tensor later = answer(model, 0).to(torch::kFloat);
  EXPECT_TRUE(later.equal(torch::full({3, 4}, 2.))) << "no copies of older weights";
  later.sum().backward();
  EXPECT_EQ(student.parameters()[0].grad().scalar_type(), torch::kFloat);
  EXPECT_TRUE(student.parameters()[0].grad().allclose(torch::full({4, 4}, 3.)));
}

TEST_F(ScriptStudentTest, RefusesWhatHasNoWeights) {
  ModelCard card = saved("frozen.pt", true);
  EXPECT_NE(refusal([&] { ScriptStudent(card, torch::kCPU); }).find("is frozen"),
            std::string::npos);
  card.format = kPackageFormat;
  EXPECT_NE(refusal([&] { ScriptStudent(card, torch::kCPU); }).find("is compiled"),
            std::string::npos);
}

}  // namespace
}  // namespace bespoke
