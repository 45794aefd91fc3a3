// What distillation must reach on a full-sized mixture, on pairs it has not seen, for what
// it spends. The bounds leave about two decibels to the scatter of seeds.

#include <gtest/gtest.h>

#include "bespoke/model/fields.h"
#include "bespoke/recipe/distill_model.h"
#include "problem.h"
#include "support.h"

namespace bespoke {
namespace {

Pairs floor_pairs(const ModelPtr& model, int64_t seed, int64_t count, int64_t trajectories) {
  PairSource source;
  source.seed = seed;
  source.count = count;
  source.tolerances = {1e-8, 1e-8};
  source.trajectories = trajectories;
  return make_pairs(model, source);
}

// The pairs are given, so the calls are those of fits, training and measurements.
DistillSummary distilled(int nfe, int64_t most_calls) {
  const ModelPtr model = mixture_model(random_mixture({}), fm_ot_schedule(), Prediction::velocity);
  ModelDistillOptions options;
  options.nfe = nfe;
  options.iterations = 100;
  options.most_calls = most_calls;
  options.training = floor_pairs(model, 11, 512, options.fit.samples);
  options.validation = floor_pairs(model, 12, 256, 0);
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
