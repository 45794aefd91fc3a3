#include "bespoke/sample/on_outputs.h"

#include <gtest/gtest.h>

#include "bespoke/model/card.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/network.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "self_guided.h"
#include "support.h"

namespace bespoke {
namespace {

double difference(const NsSolver& solver, const ModelPtr& model, const torch::Tensor& x0,
                  const Conditions& conditions = {}) {
  const SolverOnField run = on_outputs(solver, model);
  return testing::relative_error(sample(run.solver, *run.field, x0, conditions),
                                 sample(solver, VelocityField(model), x0, conditions));
}

TEST(OnOutputs, GivesTheSamplesOfTheVelocities) {
  for (const auto& schedule : {fm_ot_schedule(), vp_schedule(), cosine_schedule()}) {
    for (const auto prediction :
         {Prediction::velocity, Prediction::noise, Prediction::data, Prediction::v}) {
      const ModelPtr model = mixture_model(testing::small_mixture(), schedule, prediction);
      const auto x0 = testing::starting_noise(*model, 5);
      for (const char* name : {"euler", "rk4", "dpm++2m", "unipc2-bh2"}) {
        for (const char* grid : {"", "lambda-range:from=-4,to=4"}) {
          // Next to an end that a prediction leaves open, rounding is magnified a million times.
          EXPECT_LT(difference(make_solver(name, {8, schedule, grid}), model, x0), 1e-7)
              << schedule->name() << " " << to_string(prediction) << " " << name << " " << grid;
        }
      }
    }
  }
}

TEST(OnOutputs, KeepsGuidanceAndSolversThatGuideThemselves) {
  const ModelPtr model =
      guided_model(mixture_model(testing::small_mixture(6, 4, 2), vp_schedule(), Prediction::noise),
                   1.5, {{"class", torch::full({1}, 2, torch::kLong)}});
  const auto x0 = testing::starting_noise(*model, 3);
  const Conditions labels = {{"class", torch::tensor({0, 1, 1}, torch::kLong)}};
  const NsSolver solver = make_solver("dpm++2m", {6, vp_schedule(), "lambda-range:from=-2.5,to=4"});
  EXPECT_LT(difference(solver, model, x0, labels), 1e-11);
  EXPECT_EQ(difference(testing::self_guided(solver, 1.5), model, x0, labels), 0);
}

// In float32, on networks: rounding is all that may differ.
TEST(OnOutputs, GivesTheSamplesOfTheEmbeddedModels) {
  for (const std::string name : {"cifar10-fm-ot", "cifar10-eps-vp"}) {
    const ModelCard card = read_model_card(BESPOKE_SOURCE_DIR "/models/" + name + ".json");
    const ModelPtr model = load_model(card);
    const auto x0 = testing::starting_noise(*model, 2).to(torch::kFloat);
    const Conditions labels = {{"y", torch::tensor({3, 7}, torch::kLong)}};
    const NsSolver solver =
        make_solver("dpm++2m", {6, card.schedule, "lambda-range:from=-4.3,to=4.5"});
    EXPECT_LT(difference(solver, model, x0, labels), 1e-4) << name;
  }
}

}  // namespace
}  // namespace bespoke
