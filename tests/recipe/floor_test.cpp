// What distillation must reach on a full-sized mixture, on pairs it has not seen, for what
// it spends. The bounds leave about two decibels to the scatter of seeds.

#include <gtest/gtest.h>

#include "bespoke/model/fields.h"
#include "bespoke/recipe/distill_model.h"
#include "problem.h"
#include "support.h"

namespace bespoke {
namespace {

DistillSummary distil_from_midpoint(int nfe, int64_t most_forwards) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  ModelDistillOptions options;
  options.nfe = nfe;
  options.iterations = 100;
  options.starts = {{"midpoint", testing::start_solver("midpoint", nfe)}};
  options.most_forwards = most_forwards;
  options.training_plan = {512, 11};
  options.validation_plan = {256, 12};
  options.tolerances = {1e-8, 1e-8};
  return distill(model, options);
}

TEST(Floor, FourEvaluations) {
  const DistillSummary summary = distil_from_midpoint(4, 48000);
  EXPECT_LT(summary.training.forwards, 50000);
  EXPECT_GT(summary.validation_psnr, 65);
}

TEST(Floor, EightEvaluations) {
  const DistillSummary summary = distil_from_midpoint(8, 96000);
  EXPECT_LT(summary.training.forwards, 100000);
  EXPECT_GT(summary.validation_psnr, 83);
}

}  // namespace
}  // namespace bespoke
