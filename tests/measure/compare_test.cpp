#include "bespoke/measure/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/measure/joint_flux.h"
#include "bespoke/sample/in_batches.h"
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
  for (size_t k = 0; k < list.size(); ++k)
    EXPECT_NEAR(one.rows[k].psnr(), many.rows[k].psnr(), 1e-9);
  EXPECT_GT(one.rows[1].psnr(), one.rows[0].psnr() + 10);
}

// Something else to measure, as a user may: the largest number of each sample.
class LargestNumber : public Measure {
 public:
  Tally tally(const MeasuredSamples& samples, const MeasuredSamples&) const override {
    return reference_tally(samples);
  }
  Tally reference_tally(const MeasuredSamples& exact) const override {
    Tally result;
    result.numbers.emplace_back();
    for (const auto& x : exact.drawn().unbind(0)) {
      result.numbers[0].push_back(x.max().item<double>());
    }
    return result;
  }
  FiguresOf against(const Tally&) const override {
    return [](const Tally& solver) { return figures_of(solver); };
  }
  Figures reference_figures(const Tally& reference) const override { return figures_of(reference); }
  std::vector<FigureColumn> columns(const Figures& reference) const override {
    return {{"largest", FigureKind::distance,
             "largest number; the reference's " + std::to_string(reference.at("largest"))}};
  }

 private:
  static Figures figures_of(const Tally& tally) {
    return {{"largest", *std::max_element(tally.numbers[0].begin(), tally.numbers[0].end())}};
  }
};

class CompareTest : public ::testing::Test {
 protected:
  CompareTest() {
    options_.tolerances = {1e-8, 1e-8};
    inputs_.count = 40;
  }

  Comparison measured(const std::vector<NamedSolver>& contenders, const torch::Tensor& x0) {
    options_.measures = make_measures(inputs_);
    return compare(model_, contenders, x0, {}, options_);
  }
  Comparison measured(const std::vector<NamedSolver>& contenders) {
    return measured(contenders, x0_);
  }

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
  MeasureInputs inputs_;
};

TEST_F(CompareTest, MeasuresDistancesOfFeatures) {
  inputs_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  inputs_.real = feature_statistics(inputs_.features, testing::starting_noise(*model_, 50, 9), 64);
  options_.batch = 16;
  const auto result = measured({contender("euler", 4), contender("rk4", 16)});
  const auto statistics = feature_statistics(
      inputs_.features, reference_in_batches(model_, x0_, {}, options_.tolerances).x, 64);
  EXPECT_NEAR(*result.reference.figure("fd_real"), frechet_distance(*inputs_.real, statistics),
              1e-9);
  EXPECT_LT(*result.rows[1].figure("fd_ref"), 1e-3 * *result.rows[0].figure("fd_ref"));
  EXPECT_NEAR(*result.rows[1].figure("fd_real"), *result.reference.figure("fd_real"), 1e-2);
  inputs_.features = nullptr;
  EXPECT_FALSE(measured({contender("euler", 4)}).rows[0].figure("fd_ref").has_value());
}

TEST_F(CompareTest, UsesWhatIsKnownOfTheReference) {
  inputs_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.batch = 16;
  const auto list = {contender("midpoint", 4)};
  const auto plain = measured(list);
  const ReferenceResult all = reference_in_batches(model_, x0_, {}, options_.tolerances);
  options_.reference = [&](int64_t begin, int64_t end) {
    return ReferenceResult{all.x.slice(0, begin, end), all.evaluations.slice(0, begin, end)};
  };
  options_.tolerances = {1, 1};  // no longer matters
  const auto known = measured(list);
  EXPECT_EQ(known.rows[0].psnr(), plain.rows[0].psnr());
  EXPECT_EQ(known.reference_evaluations, plain.reference_evaluations);
  EXPECT_NEAR(*known.rows[0].figure("fd_ref"), *plain.rows[0].figure("fd_ref"), 1e-12);
}

TEST_F(CompareTest, HalvesAreTheFirstSamplesAndTheOthers) {
  inputs_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.batch = 16;  // the middle is within a batch
  const auto result = measured({contender("euler", 4)});
  const torch::Tensor x = reference_in_batches(model_, x0_, {}, options_.tolerances).x;
  EXPECT_NEAR(*result.reference.figure("fd_noise"),
              frechet_distance(feature_statistics(inputs_.features, x.slice(0, 0, 20), 64),
                               feature_statistics(inputs_.features, x.slice(0, 20), 64)),
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
  inputs_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.batch = 4;
  const std::vector<NamedSolver> list = {contender("euler", 4), contender("midpoint", 4)};
  const Comparison whole = measured(list);
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
  EXPECT_EQ(*streamed.reference.figure("fd_noise"), *whole.reference.figure("fd_noise"));
  for (size_t k = 0; k < list.size(); ++k) {
    EXPECT_EQ(streamed.rows[k].psnr(), whole.rows[k].psnr());
    EXPECT_EQ(*streamed.rows[k].figure("fd_ref"), *whole.rows[k].figure("fd_ref"));
  }
}

TEST_F(CompareTest, OneThatDivergesDoesNotStopTheOthers) {
  inputs_.features = [](const torch::Tensor& x) { return x; };
  options_.keep = 2;
  const auto result = measured({exploding(), contender("rk4", 16)});
  EXPECT_TRUE(result.rows[0].diverged);
  EXPECT_TRUE(std::isnan(result.rows[0].psnr()));
  EXPECT_FALSE(result.rows[0].figure("fd_ref").has_value());
  EXPECT_FALSE(result.rows[0].samples.defined());
  EXPECT_FALSE(result.rows[1].diverged);
  EXPECT_TRUE(result.rows[1].figure("fd_ref").has_value());
}

TEST_F(CompareTest, FeaturesThatFailForOneSolverCostItOnlyTheDistance) {
  const double most =
      3 + reference_in_batches(model_, x0_, {}, options_.tolerances).x.abs().max().item<double>();
  inputs_.features = [=](const torch::Tensor& x) {
    if (x.abs().max().item<double>() > most) throw Error(ErrorKind::diverged, "infinite");
    return x;
  };
  NamedSolver wild = contender("euler", 2);
  wild.solver.a.back() = 100;
  const auto result = measured({wild, contender("rk4", 16)});
  EXPECT_TRUE(std::isfinite(result.rows[0].psnr()));
  EXPECT_FALSE(result.rows[0].figure("fd_ref").has_value());
  EXPECT_TRUE(result.rows[1].figure("fd_ref").has_value());
}

TEST_F(CompareTest, KeepsTheFirstSamplesDecoded) {
  options_.keep = 5;
  options_.batch = 3;
  const auto plain = measured({contender("rk4", 16)});
  options_.decode = [](const torch::Tensor& x, int64_t) { return 2 * x.slice(1, 0, 4); };
  const auto decoded = measured({contender("rk4", 16)});
  EXPECT_EQ(plain.rows[0].psnr(), decoded.rows[0].psnr());
  EXPECT_EQ(plain.reference.samples.sizes(), torch::IntArrayRef({5, 6}));
  EXPECT_TRUE(torch::equal(decoded.reference.samples, 2 * plain.reference.samples.slice(1, 0, 4)));
  EXPECT_LT(testing::relative_error(plain.rows[0].samples, plain.reference.samples), 1e-2);
  EXPECT_FALSE(decoded.rows[0].figure("latent_psnr_db").has_value());
  inputs_.decoded = true;
  const auto both = measured({contender("rk4", 16)});
  EXPECT_NE(both.rows[0].psnr(), plain.rows[0].psnr());
  EXPECT_EQ(both.rows[0].figure("latent_psnr_db"), plain.rows[0].psnr());
}

TEST_F(CompareTest, ATeamFindsTheSameFigures) {
  options_.keep = 25;
  options_.batch = 8;
  inputs_.features = [](const torch::Tensor& x) { return x.slice(1, 0, 3); };
  options_.decode = [](const torch::Tensor& x, int64_t) { return 2 * x; };
  inputs_.decoded = true;
  const std::vector<NamedSolver> list = {contender("euler", 4), exploding(), contender("rk4", 8)};
  const Comparison one = measured(list);
  testing::ThreadTeam(3).run([&](Team& team) {
    CompareOptions own = options_;
    own.team = &team;
    const Comparison three = compare(model_, list, x0_, {}, own);
    EXPECT_EQ(three.reference_evaluations, one.reference_evaluations);
    EXPECT_TRUE(torch::allclose(three.reference.samples, one.reference.samples));
    for (size_t k = 0; k < list.size(); ++k) {
      const ComparisonRow &row = three.rows[k], &alone = one.rows[k];
      EXPECT_EQ(row.diverged, k == 1);
      if (row.diverged) continue;
      ASSERT_EQ(row.figures.size(), alone.figures.size());
      for (const auto& [name, value] : alone.figures) {
        EXPECT_NEAR(row.figures.at(name), value, 1e-9) << name;
      }
      EXPECT_EQ(row.samples.sizes(), alone.samples.sizes());
      EXPECT_TRUE(torch::allclose(row.samples, alone.samples));
    }
  });
}

TEST_F(CompareTest, MeasuresOnlyWhatTheMaskCounts) {
  options_.batch = 7;
  options_.keep = 40;
  options_.decode = [](const torch::Tensor& x, int64_t) { return 2 * x; };
  inputs_.mask = torch::zeros({40, 6});
  inputs_.mask.slice(1, 0, 2).fill_(1);
  inputs_.mask.slice(0, 20).slice(1, 2, 3).fill_(1);  // another part of other samples
  inputs_.decoded_mask = torch::ones({40, 1});
  inputs_.decodes_sounds = true;
  const Comparison result = measured({contender("midpoint", 8)});
  const ComparisonRow& row = result.rows[0];
  const torch::Tensor error = (row.samples - result.reference.samples).to(torch::kDouble) / 2;
  const torch::Tensor truth = result.reference.samples.to(torch::kDouble) / 2;
  const auto snr = [](const torch::Tensor& errors, const torch::Tensor& truths) {
    return (10 * (truths.square().sum(1) / errors.square().sum(1)).log10()).mean().item<double>();
  };
  EXPECT_NEAR(*row.figure("snr_latent_db"), snr(error * inputs_.mask, truth * inputs_.mask), 1e-3);
  EXPECT_NEAR(*row.figure("snr_decoded_db"), snr(error, truth), 1e-3);
  EXPECT_EQ(row.figure("snr_db"), row.figure("snr_latent_db"));
  const torch::Tensor mse =
      (error * inputs_.mask).square().sum(1) / inputs_.mask.sum(1).to(torch::kDouble);
  EXPECT_NEAR(row.psnr(), (10 * (4 / mse).log10()).mean().item<double>(), 1e-3);
}

TEST_F(CompareTest, MeasuresTheJointsOfFilledGaps) {
  auto sounds = std::make_shared<GappedSounds>();
  for (const int64_t begin : {160, 240, 300}) {
    GappedSound sound;
    sound.window.sound = torch::randn({600});
    sound.window.gap = {begin, begin + 100};
    sounds->sounds.push_back(sound);
  }
  inputs_.gaps = std::make_shared<FilledGaps>(sounds, Conditions(), nullptr, 8000, 40);
  options_.batch = 7;
  options_.keep = 40;
  options_.decode = [](const torch::Tensor& x, int64_t) {
    return x.repeat_interleave(100, 1).unsqueeze(1);
  };
  const Comparison result = measured({contender("euler", 2)});
  const auto mean_flux = [&](const torch::Tensor& shown) {
    double sum = 0;
    for (int64_t i = 0; i < 40; ++i) {
      sum += joint_flux(shown[i][0], sounds->sounds[static_cast<size_t>(i % 3)].window.gap);
    }
    return sum / 40;
  };
  EXPECT_NEAR(*result.rows[0].figure("joint_flux_db"), mean_flux(result.rows[0].samples), 1e-4);
  const double of_reference = *result.reference.figure("joint_flux_db");
  EXPECT_NEAR(of_reference, mean_flux(result.reference.samples), 1e-4);
  EXPECT_NE(of_reference, *result.rows[0].figure("joint_flux_db"));
}

// Every measure, whatever it is of, reaches the rows, the reference and the columns.
TEST_F(CompareTest, TakesMeasuresOfTheUsersOwn) {
  options_.keep = 40;
  options_.batch = 9;
  options_.measures.push_back(std::make_shared<LargestNumber>());
  const auto result = compare(model_, {contender("euler", 4)}, x0_, {}, options_);
  EXPECT_NEAR(*result.rows[0].figure("largest"), result.rows[0].samples.max().item<double>(), 1e-6);
  EXPECT_NEAR(*result.reference.figure("largest"), result.reference.samples.max().item<double>(),
              1e-6);
  ASSERT_FALSE(result.columns.empty());
  EXPECT_EQ(result.columns.back().name, "largest");
  EXPECT_GT(result.rows[0].psnr(), 0) << "beside the usual ones";
}

TEST_F(CompareTest, CountsBothCallsOfAGuidedEvaluation) {
  options_.guidance = GuidanceWeight(2);
  options_.guidance.to = 0.5;  // Euler's times are 0, 1/4, 1/2, 3/4
  const auto result = measured({contender("euler", 4)});
  EXPECT_EQ(result.rows[0].nfe, 4);
  EXPECT_EQ(result.rows[0].model_calls, 7);
}

TEST_F(CompareTest, GivesFiguresByEachSamplesGuidance) {
  inputs_.guidance_bins = GuidanceRange{0, 3}.bins();
  options_.batch = 7;
  inputs_.guidance_weights = torch::full({40}, 0.5, torch::kDouble);
  inputs_.guidance_weights.slice(0, 10, 40).fill_(2.0);  // an edge belongs to the bin above it
  const auto result = measured({contender("euler", 4), exploding()});
  const auto& row = result.rows[0];
  EXPECT_EQ(std::count_if(result.columns.begin(), result.columns.end(),
                          [](const FigureColumn& column) { return !column.heading.empty(); }),
            3);
  inputs_.guidance_bins.clear();
  const auto first = measured({contender("euler", 4)}, x0_.slice(0, 0, 10));
  const auto rest = measured({contender("euler", 4)}, x0_.slice(0, 10));
  EXPECT_NEAR(*row.figure("psnr_db_w_0_to_1"), first.rows[0].psnr(), 1e-9);
  EXPECT_NEAR(*row.figure("psnr_error_db_w_0_to_1"), first.rows[0].psnr_error(), 1e-9);
  EXPECT_FALSE(row.figure("psnr_db_w_1_to_2").has_value()) << "no sample has such a weight";
  EXPECT_NEAR(*row.figure("psnr_db_w_2_to_3"), rest.rows[0].psnr(), 1e-9);
  EXPECT_TRUE(result.rows[1].figures.empty());
  EXPECT_FALSE(first.rows[0].figure("psnr_db_w_0_to_1").has_value());
}

}  // namespace
}  // namespace bespoke
