// What distillation must reach on a full-sized mixture, on pairs it has not seen, for what
// it spends. The bounds leave about two decibels to the scatter of seeds.

#include <gtest/gtest.h>

#include "bespoke/model/fields.h"
#include "bespoke/recipe/distill_model.h"
#include "problem.h"
#include "support.h"

namespace bespoke {
namespace {

DistillSummary distilled(int nfe, int64_t most_forwards) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  ModelDistillOptions options;
  options.nfe = nfe;
  options.iterations = 100;
  options.most_forwards = most_forwards;
  options.training_plan = {512, 11};
  options.validation_plan = {256, 12};
  options.tolerances = {1e-8, 1e-8};
  return distill(model, options);
}

TEST(Floor, FourEvaluations) {
  const DistillSummary summary = distilled(4, 48000);
  EXPECT_LE(summary.training.forwards, 48000);
  EXPECT_GT(summary.validation_psnr, 65) << summary.brief_report();
}

TEST(Floor, EightEvaluations) {
  const DistillSummary summary = distilled(8, 96000);
  EXPECT_LE(summary.training.forwards, 96000);
  EXPECT_GT(summary.validation_psnr, 80) << summary.brief_report();
}

}  // namespace
}  // namespace bespoke
