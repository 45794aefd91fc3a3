// Models told in another schedule, prediction and time: the same solver is found, which draws the
// same samples.

#include <gtest/gtest.h>

#include "bespoke/model/card.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/network.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/sample/reference.h"
#include "bespoke/tensor/noise.h"
#include "support.h"

namespace bespoke {
namespace {

// A model of velocities on the FM-OT path told in something else, one time for all samples.
ModelPtr restated(const ModelPtr& straight, const SchedulePtr& schedule, Prediction prediction) {
  const auto f = [=](const torch::Tensor& x, const torch::Tensor& t, const Conditions& conditions) {
    std::vector<torch::Tensor> rows;
    for (int64_t k = 0; k < x.size(0); ++k) {
      const double time = t[k].item<double>();
      const ScaleTimePoint place = from_fm_ot(*schedule, time);
      const torch::Tensor state = x.slice(0, k, k + 1) / place.s;
      Conditions own;
      for (const auto& [name, values] : conditions) own[name] = values.slice(0, k, k + 1);
      const torch::Tensor u = straight->predict(state, testing::times(1, place.t), own);
      const auto output = output_in_terms_of_data_and_noise(prediction, schedule->at(time));
      rows.push_back(output.data * (state + (1 - place.t) * u) +
                     output.noise * (state - place.t * u));
    }
    return torch::cat(rows);
  };
  return function_model(prediction, schedule, straight->sample_shape(), f, state_dtype(*straight));
}

// The same noise for all, seen from the FM-OT path.
Pairs told_pairs(const ModelPtr& model, int64_t count, uint64_t seed, double tolerance,
                 const Conditions& conditions) {
  const ScaleTimePoint start = from_fm_ot(*model->schedule(), 0);
  const torch::Tensor normal =
      normal_noise(seed, 0, count, model->sample_shape()).to(state_dtype(*model));
  Pairs pairs;
  pairs.x0 = start.s * (1 - start.t) * normal;
  pairs.conditions = conditions;
  ReferenceOptions options;
  options.tolerances = {tolerance, tolerance};
  options.record = count;
  ReferenceResult drawn = reference(model, pairs.x0, conditions, options);
  pairs.x1 = drawn.x;
  pairs.trajectories = std::make_shared<const DenseTrajectories>(std::move(drawn.trajectories));
  return pairs;
}

ModelDistillOptions options_for(const ModelPtr& model, int64_t count, double tolerance,
                                const Conditions& conditions = {}) {
  ModelDistillOptions options;
  options.nfe = 4;
  options.iterations = 3;
  options.training = told_pairs(model, count, 1, tolerance, conditions);
  options.validation = told_pairs(model, count, 2, tolerance, conditions);
  return options;
}

SchedulePtr from_log_snr(const std::string& name, double lambda) {
  const SchedulePtr whole = make_schedule(name);
  return part_of(whole, whole->time_at_lambda(lambda), 1, false);
}

TEST(Restated, MixturesHaveTheSameSolver) {
  std::vector<DistillSummary> all;
  const std::vector<std::pair<std::string, Prediction>> tellings = {
      {"fm-ot", Prediction::velocity},
      {"vp", Prediction::noise},
      {"cosine", Prediction::v},
      {"edm", Prediction::edm},
      {"ddpm-linear", Prediction::data},
      {"ddpm-cosine:steps=50", Prediction::v},
      {"ddpm-quadratic:steps=20,beta_start=0.001,beta_end=0.97", Prediction::noise}};
  for (const auto& [name, prediction] : tellings) {
    const ModelPtr model =
        mixture_model(testing::small_mixture(), from_log_snr(name, -4), prediction);
    all.push_back(distill(model, options_for(model, 24, 1e-6)));
    EXPECT_NEAR(all.back().validation_psnr, all.front().validation_psnr, 0.2) << name;
    EXPECT_EQ(all.back().training.forwards, all.front().training.forwards) << name;
  }
}

TEST(Restated, EmbeddedModelsHaveTheSameSolver) {
  const std::string path = std::string(BESPOKE_SOURCE_DIR) + "/models/cifar10-fm-ot.json";
  const ModelPtr plain = load_model(read_model_card(path));
  constexpr int64_t kCount = 4;
  const Conditions conditions = {{"y", torch::arange(kCount)}};
  std::vector<DistillSummary> all;
  for (const auto& [name, prediction] :
       {std::make_pair("cosine", Prediction::v), std::make_pair("vp", Prediction::noise),
        std::make_pair("ddpm-cosine:steps=50", Prediction::data)}) {
    const ModelPtr model = restated(plain, from_log_snr(name, -4.5), prediction);
    ModelDistillOptions options = options_for(model, kCount, 1e-3, conditions);
    options.method = Method::fit;
    options.nfe = 3;
    all.push_back(distill(model, options));
  }
  EXPECT_GT(all[0].validation_psnr, 20);
  for (const DistillSummary& found : all) {
    EXPECT_NEAR(found.validation_psnr, all[0].validation_psnr, 0.2);
    EXPECT_EQ(found.start, all[0].start);
    EXPECT_EQ(found.screening.forwards, all[0].screening.forwards);
  }
}

// Guidance inside the solver is translated with it.
TEST(Restated, SolversThatGuideThemselvesRunAsTheyWereMeasured) {
  constexpr int64_t kClasses = 2, kCount = 16;
  const ModelPtr model = guided_model(
      mixture_model(testing::small_mixture(24, 6, kClasses), vp_schedule(), Prediction::noise), 2,
      {{"class", torch::full({1}, kClasses, torch::kLong)}});
  const Conditions conditions = {{"class", torch::arange(kCount) % kClasses}};
  ModelDistillOptions options = options_for(model, kCount, 1e-6, conditions);
  options.network_calls = 6;
  options.nfe = 0;
  options.iterations = 2;
  const DistillSummary found = distill(model, options);
  ASSERT_TRUE(found.solver.guides_itself());
  const Samples own = tensor_samples(std::make_shared<VelocityField>(model), *options.validation);
  Counts counts;
  double loss = 0;
  for (const double error : own.log_errors(found.solver, first_samples(own), &counts)) {
    loss += error / kCount;
  }
  EXPECT_NEAR(psnr_of_loss(loss, kUnitPeak), found.validation_psnr, 0.05);
}

}  // namespace
}  // namespace bespoke
