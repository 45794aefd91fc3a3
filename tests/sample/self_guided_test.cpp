// Solvers with built-in guidance, against ordinary ones on the guided field.

#include <gtest/gtest.h>

#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/adjoint.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "refusal.h"
#include "self_guided.h"
#include "support.h"

namespace bespoke {
namespace {

using testing::guided_in_the_first;
using testing::refusal;
using testing::self_guided;

constexpr double kWeight = 1.7;
constexpr int64_t kCount = 5, kClasses = 2;

// A guided mixture that counts the samples and batches its network is called on.
struct Guided {
  int64_t samples = 0, batches = 0;
  ModelPtr network, model;
  Conditions conditions = {{"class", torch::tensor({0, 1, 0, 1, 1}, torch::kLong)}};

  explicit Guided(Prediction prediction = Prediction::velocity,
                  const SchedulePtr& schedule = fm_ot_schedule()) {
    const ModelPtr mixture =
        mixture_model(testing::small_mixture(6, 4, kClasses), schedule, prediction);
    network = function_model(
        prediction, schedule, {6},
        [this, mixture](const torch::Tensor& x, const torch::Tensor& t, const Conditions& c) {
          samples += x.size(0);
          ++batches;
          return mixture->predict(x, t, c);
        },
        torch::kDouble);
    model = guided_model(network, kWeight, {{"class", torch::full({1}, kClasses, torch::kLong)}});
  }

  torch::Tensor run(const NsSolver& solver) const {
    return sample(solver, VelocityField(model), testing::starting_noise(*model, kCount),
                  conditions);
  }
};

TEST(SelfGuided, WithTheFieldsOwnWeightItIsTheOrdinarySolver) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule(), cosine_schedule()}) {
    for (const Prediction prediction : {Prediction::velocity, Prediction::noise, Prediction::v}) {
      const Guided guided(prediction, schedule);
      const NsSolver ordinary =
          make_solver("dpm++2m", {6, schedule, "lambda-range:from=-2.5,to=4"});
      EXPECT_LT(
          testing::relative_error(guided.run(self_guided(ordinary, kWeight)), guided.run(ordinary)),
          1e-12)
          << schedule->name() << " " << to_string(prediction);
    }
  }
}

TEST(SelfGuided, AStepWithoutADifferenceCallsTheNetworkOnce) {
  Guided guided;
  const NsSolver solver =
      guided_in_the_first(make_solver("ab2", {6, fm_ot_schedule()}), 2, kWeight);
  guided.run(solver);
  EXPECT_EQ(guided.samples, kCount * solver.shape().calls());
  EXPECT_EQ(guided.samples, kCount * (6 + 2));
  EXPECT_EQ(guided.batches, 6);  // both halves of a guided step are one batch
}

// Late steps whose differences count for nothing are those of a solver without them.
TEST(SelfGuided, DifferencesOfNoWeightAreNotMissed) {
  const Guided guided;
  NsSolver all = self_guided(make_solver("ab2", {6, fm_ot_schedule()}), kWeight);
  for (auto& row : all.c) {
    for (size_t j = 3; j < row.size(); ++j) row[j] = 0;
  }
  const NsSolver some = guided_in_the_first(make_solver("ab2", {6, fm_ot_schedule()}), 3, kWeight);
  EXPECT_LT(testing::relative_error(guided.run(some), guided.run(all)), 1e-14);
}

TEST(SelfGuided, StepsReportTheirDifferences) {
  const Guided guided;
  std::vector<bool> found;
  const auto note = [&](const StepInfo& info) { found.push_back(info.difference.defined()); };
  sample(guided_in_the_first(make_solver("euler", {3, fm_ot_schedule()}), 1, kWeight),
         VelocityField(guided.model), testing::starting_noise(*guided.model, kCount),
         guided.conditions, note);
  EXPECT_EQ(found, (std::vector<bool>{true, false, false}));
}

TEST(SelfGuided, BatchesChangeNoBit) {
  const Guided guided;
  const NsSolver solver =
      guided_in_the_first(make_solver("ab2", {5, fm_ot_schedule()}), 2, kWeight);
  Batching batching;
  batching.batch = 2;
  EXPECT_TRUE(torch::equal(sample_in_batches(solver, VelocityField(guided.model),
                                             testing::starting_noise(*guided.model, kCount),
                                             guided.conditions, batching),
                           guided.run(solver)));
}

TEST(SelfGuided, NeedsAGuidedModel) {
  const Guided guided;
  const NsSolver solver = self_guided(make_solver("euler", {3, fm_ot_schedule()}), kWeight);
  const auto noise = testing::starting_noise(*guided.model, kCount);
  EXPECT_NE(refusal([&] {
              sample(solver, VelocityField(guided.network), noise, guided.conditions);
            }).find("needs guidance"),
            std::string::npos);
  EXPECT_NE(refusal([&] { sample(solver, VelocityField(guided.model), noise); }).find("'class'"),
            std::string::npos);
  Counts counts;
  EXPECT_NE(refusal([&] {
              run_trajectory(solver, VelocityField(guided.model), noise, guided.conditions,
                             &counts);
            }).find("built-in guidance"),
            std::string::npos);
}

}  // namespace
}  // namespace bespoke
