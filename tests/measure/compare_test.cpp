#include "bespoke/measure/compare.h"

#include "bespoke/sample/in_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/solver/catalogue.h"
#include "support.h"
#include "thread_team.h"

namespace bespoke {
namespace {

TEST(Compare, DoesNotDependOnTheBatchSize) {
  const ModelPtr model =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);
  const auto x0 = testing::starting_noise(*model, 10);
  const std::vector<NamedSolver> list = {{"euler", make_solver("euler", {8, fm_ot_schedule(), ""})},
                                         {"rk4", make_solver("rk4", {8, fm_ot_schedule(), ""})}};
  CompareOptions whole, parts;
  whole.tolerances = parts.tolerances = {1e-8, 1e-8};
  whole.batch = 10;
  parts.batch = 3;
  double last = 0;
  parts.on_progress = [&](double done) {
    EXPECT_GE(done, last);
    last = done;
  };
  const Comparison one = compare(model, list, x0, {}, whole);
  const Comparison many = compare(model, list, x0, {}, parts);
  EXPECT_NEAR(last, 1, 1e-12);
  EXPECT_EQ(one.reference_evaluations, many.reference_evaluations);
  for (size_t k = 0; k < list.size(); ++k) EXPECT_NEAR(one.rows[k].psnr, many.rows[k].psnr, 1e-9);
  EXPECT_GT(one.rows[1].psnr, one.rows[0].psnr + 10);
}

class CompareTest : public ::testing::Test {
 protected:
  CompareTest() { options_.tolerances = {1e-8, 1e-8}; }

  static NamedSolver contender(const std::string& name, int nfe) {
    return {name, make_solver(name, {nfe, fm_ot_schedule(), ""})};
  }

  // Overflows float64 within a few steps.
  static NamedSolver exploding() {
    NamedSolver euler = contender("euler", 4);
    for (double& a : euler.solver.a) a = 1e200;
    for (auto& row : euler.solver.b) row.assign(row.size(), 1e200);
    return {"exploding", euler.solver};
  }

  const ModelPtr model_ =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);
  const torch::Tensor x0_ = testing::starting_noise(*model_, 40);
  CompareOptions options_;
};

TEST_F(CompareTest, MeasuresDistancesOfFeatures) {
  options_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.real_statistics =
      feature_statistics(options_.features, testing::starting_noise(*model_, 50, 9), 64);
  options_.batch = 16;
  const auto result =
      compare(model_, {contender("euler", 4), contender("rk4", 16)}, x0_, {}, options_);
  const auto statistics = feature_statistics(
      options_.features, reference_in_batches(model_, x0_, {}, options_.tolerances).x, 64);
  EXPECT_NEAR(*result.reference_frechet_to_real,
              frechet_distance(*options_.real_statistics, statistics), 1e-9);
  EXPECT_LT(*result.rows[1].frechet_to_reference, 1e-3 * *result.rows[0].frechet_to_reference);
  EXPECT_NEAR(*result.rows[1].frechet_to_real, *result.reference_frechet_to_real, 1e-2);
  options_.features = nullptr;
  EXPECT_FALSE(compare(model_, {contender("euler", 4)}, x0_, {}, options_)
                   .rows[0]
                   .frechet_to_reference.has_value());
}

TEST_F(CompareTest, UsesWhatIsKnownOfTheReference) {
  options_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.batch = 16;
  const auto list = {contender("midpoint", 4)};
  const auto plain = compare(model_, list, x0_, {}, options_);
  const ReferenceResult all = reference_in_batches(model_, x0_, {}, options_.tolerances);
  options_.reference = [&](int64_t begin, int64_t end) {
    return ReferenceResult{all.x.slice(0, begin, end), all.evaluations.slice(0, begin, end)};
  };
  options_.tolerances = {1, 1};  // no longer matters
  const auto known = compare(model_, list, x0_, {}, options_);
  EXPECT_EQ(known.rows[0].psnr, plain.rows[0].psnr);
  EXPECT_EQ(known.reference_evaluations, plain.reference_evaluations);
  EXPECT_NEAR(*known.rows[0].frechet_to_reference, *plain.rows[0].frechet_to_reference, 1e-12);
}

TEST_F(CompareTest, HalvesAreTheFirstSamplesAndTheOthers) {
  options_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.batch = 16;  // the middle is within a batch
  const auto result = compare(model_, {contender("euler", 4)}, x0_, {}, options_);
  const torch::Tensor x = reference_in_batches(model_, x0_, {}, options_.tolerances).x;
  EXPECT_NEAR(*result.frechet_noise,
              frechet_distance(feature_statistics(options_.features, x.slice(0, 0, 20), 64),
                               feature_statistics(options_.features, x.slice(0, 20), 64)),
              1e-9);
}

// Tensors that are counted for as long as anything refers to them.
struct Lent {
  int64_t now = 0, most = 0;

  torch::Tensor copy_of(const torch::Tensor& values) {
    const auto held = std::make_shared<torch::Tensor>(values.contiguous().clone());
    most = std::max(most, now += values.size(0));
    return torch::from_blob(
        held->data_ptr(), held->sizes(),
        [this, held, count = values.size(0)](void*) { now -= count; }, held->options());
  }
};

TEST_F(CompareTest, HoldsNoMoreThanABatchOfHoweverManySamples) {
  options_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.batch = 4;
  const std::vector<NamedSolver> list = {contender("euler", 4), contender("midpoint", 4)};
  const Comparison whole = compare(model_, list, x0_, {}, options_);
  const ReferenceResult all = reference_in_batches(model_, x0_, {}, options_.tolerances);
  Lent noise, exact;
  options_.reference = [&](int64_t begin, int64_t end) {
    return ReferenceResult{exact.copy_of(all.x.slice(0, begin, end)),
                           all.evaluations.slice(0, begin, end)};
  };
  const auto drawn = [&](int64_t begin, int64_t end) {
    return noise.copy_of(x0_.slice(0, begin, end));
  };
  const Comparison streamed = compare(model_, list, {40, drawn, {}}, options_);
  EXPECT_EQ(noise.most, 4);
  EXPECT_EQ(exact.most, 4);
  EXPECT_EQ(noise.now + exact.now, 0);
  EXPECT_EQ(*streamed.frechet_noise, *whole.frechet_noise);
  for (size_t k = 0; k < list.size(); ++k) {
    EXPECT_EQ(streamed.rows[k].psnr, whole.rows[k].psnr);
    EXPECT_EQ(*streamed.rows[k].frechet_to_reference, *whole.rows[k].frechet_to_reference);
  }
}

TEST_F(CompareTest, OneThatDivergesDoesNotStopTheOthers) {
  options_.features = [](const torch::Tensor& x) { return x; };
  options_.keep = 2;
  const auto result = compare(model_, {exploding(), contender("rk4", 16)}, x0_, {}, options_);
  EXPECT_TRUE(result.rows[0].diverged);
  EXPECT_TRUE(std::isnan(result.rows[0].psnr));
  EXPECT_FALSE(result.rows[0].frechet_to_reference.has_value());
  EXPECT_FALSE(result.rows[0].samples.defined());
  EXPECT_FALSE(result.rows[1].diverged);
  EXPECT_TRUE(result.rows[1].frechet_to_reference.has_value());
}

TEST_F(CompareTest, FeaturesThatFailForOneSolverCostItOnlyTheDistance) {
  const double most =
      3 + reference_in_batches(model_, x0_, {}, options_.tolerances).x.abs().max().item<double>();
  options_.features = [=](const torch::Tensor& x) {
    if (x.abs().max().item<double>() > most) throw Error(ErrorKind::diverged, "infinite");
    return x;
  };
  NamedSolver wild = contender("euler", 2);
  wild.solver.a.back() = 100;
  const auto result = compare(model_, {wild, contender("rk4", 16)}, x0_, {}, options_);
  EXPECT_TRUE(std::isfinite(result.rows[0].psnr));
  EXPECT_FALSE(result.rows[0].frechet_to_reference.has_value());
  EXPECT_TRUE(result.rows[1].frechet_to_reference.has_value());
}

TEST_F(CompareTest, KeepsTheFirstSamplesDecoded) {
  options_.keep = 5;
  options_.batch = 3;
  options_.errors_of_decoded = false;
  const auto plain = compare(model_, {contender("rk4", 16)}, x0_, {}, options_);
  options_.decode = [](const torch::Tensor& x, int64_t) { return 2 * x.slice(1, 0, 4); };
  const auto decoded = compare(model_, {contender("rk4", 16)}, x0_, {}, options_);
  EXPECT_EQ(plain.rows[0].psnr, decoded.rows[0].psnr);
  EXPECT_EQ(plain.reference_samples.sizes(), torch::IntArrayRef({5, 6}));
  EXPECT_TRUE(torch::equal(decoded.reference_samples, 2 * plain.reference_samples.slice(1, 0, 4)));
  EXPECT_LT(testing::relative_error(plain.rows[0].samples, plain.reference_samples), 1e-2);
  EXPECT_FALSE(decoded.rows[0].latent_psnr.has_value());
  options_.errors_of_decoded = true;
  const auto both = compare(model_, {contender("rk4", 16)}, x0_, {}, options_);
  EXPECT_NE(both.rows[0].psnr, plain.rows[0].psnr);
  EXPECT_EQ(both.rows[0].latent_psnr, plain.rows[0].psnr);
}

TEST_F(CompareTest, ATeamFindsTheSameFigures) {
  options_.keep = 25;
  options_.batch = 8;
  options_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.decode = [](const torch::Tensor& x, int64_t) { return 2 * x; };
  const std::vector<NamedSolver> list = {contender("euler", 4), exploding(), contender("rk4", 8)};
  const Comparison one = compare(model_, list, x0_, {}, options_);
  testing::ThreadTeam(3).run([&](Team& team) {
    CompareOptions own = options_;
    own.team = &team;
    const Comparison three = compare(model_, list, x0_, {}, own);
    EXPECT_EQ(three.reference_evaluations, one.reference_evaluations);
    EXPECT_TRUE(torch::allclose(three.reference_samples, one.reference_samples));
    for (size_t k = 0; k < list.size(); ++k) {
      const ComparisonRow &row = three.rows[k], &alone = one.rows[k];
      EXPECT_EQ(row.diverged, k == 1);
      if (row.diverged) continue;
      EXPECT_NEAR(row.psnr, alone.psnr, 1e-9);
      EXPECT_NEAR(*row.latent_psnr, *alone.latent_psnr, 1e-9);
      EXPECT_NEAR(row.mse_median, alone.mse_median, 1e-12);
      EXPECT_NEAR(*row.frechet_to_reference, *alone.frechet_to_reference, 1e-9);
      EXPECT_EQ(row.samples.sizes(), alone.samples.sizes());
      EXPECT_TRUE(torch::allclose(row.samples, alone.samples));
    }
  });
}

TEST_F(CompareTest, MeasuresOnlyWhatWasFilledIn) {
  options_.batch = 7;
  options_.keep = 40;
  options_.errors_of_decoded = false;
  options_.decode = [](const torch::Tensor& x, int64_t) { return 2 * x; };
  options_.filled = torch::zeros({40, 6});
  options_.filled.slice(1, 0, 2).fill_(1);
  options_.filled.slice(0, 20).slice(1, 2, 3).fill_(1);  // another part of other samples
  options_.filled_decoded = torch::ones({40, 1});
  options_.snr_of_both = true;
  options_.joint_flux = [](const torch::Tensor& shown, int64_t first) {
    return std::vector<double>(static_cast<size_t>(shown.size(0)), first < 7 ? 1 : 2);
  };
  const Comparison result = compare(model_, {contender("midpoint", 8)}, x0_, {}, options_);
  const ComparisonRow& row = result.rows[0];
  const torch::Tensor error = (row.samples - result.reference_samples).to(torch::kDouble) / 2;
  const torch::Tensor truth = result.reference_samples.to(torch::kDouble) / 2;
  const auto snr = [](const torch::Tensor& errors, const torch::Tensor& truths) {
    return (10 * (truths.square().sum(1) / errors.square().sum(1)).log10()).mean().item<double>();
  };
  EXPECT_NEAR(*row.latent_snr, snr(error * options_.filled, truth * options_.filled), 1e-3);
  EXPECT_NEAR(*row.decoded_snr, snr(error, truth), 1e-3);
  EXPECT_EQ(row.snr, *row.latent_snr);
  const torch::Tensor mse =
      (error * options_.filled).square().sum(1) / options_.filled.sum(1).to(torch::kDouble);
  EXPECT_NEAR(row.psnr, (10 * (4 / mse).log10()).mean().item<double>(), 1e-3);
  EXPECT_NEAR(*row.joint_flux, (7 * 1 + 33 * 2) / 40.0, 1e-12);
  EXPECT_EQ(result.reference_joint_flux, row.joint_flux);
}

TEST_F(CompareTest, CountsBothCallsOfAGuidedEvaluation) {
  options_.guidance = GuidanceWeight(2);
  options_.guidance.to = 0.5;  // Euler's times are 0, 1/4, 1/2, 3/4
  const auto result = compare(model_, {contender("euler", 4)}, x0_, {}, options_);
  EXPECT_EQ(result.rows[0].nfe, 4);
  EXPECT_EQ(result.rows[0].model_calls, 7);
}

TEST_F(CompareTest, GivesFiguresByEachSamplesGuidance) {
  options_.guidance = GuidanceRange{0, 3};
  options_.batch = 7;
  torch::Tensor weights = torch::full({40}, 0.5, torch::kDouble);
  weights.slice(0, 10, 40).fill_(2.0);  // an edge belongs to the bin above it
  const Conditions conditions = {{kGuidanceCondition, weights}};
  const auto result =
      compare(model_, {contender("euler", 4), exploding()}, x0_, conditions, options_);
  ASSERT_EQ(result.guidance_bins.size(), 3u);
  const auto& row = result.rows[0];
  ASSERT_EQ(row.psnr_by_guidance.size(), 3u);
  options_.guidance = {};
  const auto first = compare(model_, {contender("euler", 4)}, x0_.slice(0, 0, 10), {}, options_);
  const auto rest = compare(model_, {contender("euler", 4)}, x0_.slice(0, 10), {}, options_);
  EXPECT_NEAR(row.psnr_by_guidance[0], first.rows[0].psnr, 1e-9);
  EXPECT_TRUE(std::isnan(row.psnr_by_guidance[1]));
  EXPECT_NEAR(row.psnr_by_guidance[2], rest.rows[0].psnr, 1e-9);
  for (const double psnr : result.rows[1].psnr_by_guidance) EXPECT_TRUE(std::isnan(psnr));
  EXPECT_TRUE(first.guidance_bins.empty());
}

}  // namespace
}  // namespace bespoke
