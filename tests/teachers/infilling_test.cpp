// The network that fills gaps, its loss and its card.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <cmath>

#include "../support.h"
#include "../temporary_folder.h"
#include "teachers/export.h"
#include "teachers/objective.h"
#include "teachers/transformer.h"
#include "teachers/weights.h"

namespace bespoke {
namespace {

using testing::relative_error;
using testing::TemporaryFolder;

// Frames of two channels, captions of up to three of five words.
const NetworkShape kGapped = {{2, 16}, 0, 5, 3, 3};

struct GapCall {
  torch::Tensor x = torch::randn({3, 2, 16}), t = torch::rand({3});
  torch::Tensor y = torch::randint(1, 6, {3, 3}, torch::kLong);
  torch::Tensor visible = torch::randn({3, 2, 16}), known = torch::ones({3, 1, 16});

  torch::Tensor input() const { return torch::cat({x, visible, known}, 1); }
};

TeacherPtr awake_filler() {
  torch::manual_seed(1);
  const TeacherPtr network = make_transformer(kGapped, {4, 16, 2, 4, 2});
  torch::NoGradGuard no_grad;
  for (auto& parameter : network->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  set_weights(*network, copy_weights(*network).to(torch::kHalf).to(torch::kFloat));
  return network;
}

TEST(GapFillingNetwork, AnswersForTheSampleAloneAndHearsAllItIsGiven) {
  const TeacherPtr network = awake_filler();
  const GapCall call;
  const torch::Tensor out = network->forward(call.input(), call.t, call.y);
  EXPECT_EQ(out.sizes(), call.x.sizes());
  for (const int64_t channel : {0, 2, 4}) {  // of x, of what is visible, and what is known
    torch::Tensor changed = call.input();
    changed.select(1, channel).select(1, 0) += 1;
    const torch::Tensor answer = network->forward(changed, call.t, call.y);
    EXPECT_GT((answer - out).select(2, 15).abs().max().item<double>(), 0) << channel;
  }
}

TEST(GapFillingNetwork, IsTheSameFromItsFile) {
  const TeacherPtr network = awake_filler();
  const TemporaryFolder folder;
  export_teacher(*network, kGapped, folder.path() / "model.pt");
  torch::jit::Module file = torch::jit::load((folder.path() / "model.pt").string());
  file.to(torch::kFloat);
  const GapCall call;
  const torch::Tensor answer =
      file.forward({call.x, call.t, call.y, call.visible, call.known}).toTensor();
  EXPECT_LT(relative_error(answer, network->forward(call.input(), call.t, call.y)), 1e-6);
}

// Calls a function in place of a network.
class GapStub : public TeacherNetwork {
 public:
  using Function = std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>;
  explicit GapStub(Function function) : function_(std::move(function)) {}
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor&,
                        const torch::Tensor& y) override {
    return function_(x, y);
  }

 private:
  Function function_;
};

Loss gap_loss(GapStub::Function function, double dropout) {
  ModelCard card;
  card.prediction = Prediction::data;
  card.schedule = fm_ot_schedule();
  return infilling_loss(std::make_shared<GapStub>(std::move(function)), card, kGapped, dropout,
                        torch::kCPU, torch::kFloat);
}

Batch sounds_of_ones(int64_t count) {
  return {torch::ones({count, 2, 16}), torch::ones({count, 3}, torch::kLong)};
}

TEST(InfillingLoss, LeavesOneGapInEachSampleAndHidesItsContent) {
  torch::manual_seed(5);
  gap_loss(
      [](const torch::Tensor& input, const torch::Tensor&) {
        const torch::Tensor visible = input.slice(1, 2, 4), known = input.slice(1, 4, 5);
        EXPECT_TRUE(torch::equal(visible, known.expand_as(visible))) << "ones, but in the gap";
        const torch::Tensor edges = known.diff(1, 2).abs().sum(2);
        EXPECT_LE(edges.max().item<double>(), 2) << "one gap";
        EXPECT_TRUE(known.sum(2).lt(16).all().item<bool>()) << "at least a frame";
        EXPECT_TRUE(known.sum(2).ge(7).all().item<bool>()) << "half of all at most";
        return torch::zeros_like(input.slice(1, 0, 2));
      },
      0)(sounds_of_ones(200));
}

TEST(InfillingLoss, DropsCaptionAndSoundTogether) {
  torch::manual_seed(6);
  int64_t dropped = 0;
  gap_loss(
      [&](const torch::Tensor& input, const torch::Tensor& y) {
        const torch::Tensor silent = input.slice(1, 2, 5).abs().sum({1, 2}).eq(0);
        EXPECT_TRUE(torch::equal(silent, y.eq(0).all(1)));
        dropped = silent.sum().item<int64_t>();
        return torch::zeros_like(input.slice(1, 0, 2));
      },
      0.25)(sounds_of_ones(400));
  EXPECT_NEAR(static_cast<double>(dropped), 100, 35);
}

TEST(InfillingLoss, CountsMistakesInTheGapMore) {
  const auto wrong_where = [](double known) {
    return gap_loss(
        [known](const torch::Tensor& input, const torch::Tensor&) {
          const torch::Tensor here = input.slice(1, 4, 5).eq(known).to(torch::kFloat);
          return (1 + here).expand({-1, 2, -1});
        },
        0)(sounds_of_ones(100));
  };
  torch::manual_seed(7);
  const double in_gap = wrong_where(0).item<double>();
  torch::manual_seed(7);
  const double outside = wrong_where(1).item<double>();
  EXPECT_NEAR(in_gap + outside, 1, 1e-5);
  EXPECT_GT(in_gap, outside);
}

TEST(TeacherCard, OfAGapFillerHasItsEncoder) {
  ModelCard card;
  card.format = "torchscript";
  card.weights = "model.pt";
  card.schedule = fm_ot_schedule();
  card.sample_rate = 8000;
  card.decoder = DecoderCard();
  card.decoder->weights = "decoder.pt";
  card.decoder->sample_shape = {1, 1280};
  card.encoder = EncoderCard{"encoder.pt", "", 3, 0.1};
  const ModelCard read = parse_model_card(
      teacher_card_text(card, kGapped, {"five", "four", "one", "three", "two"}), "model.json");
  ASSERT_TRUE(read.encoder);
  EXPECT_EQ(read.encoder->weights, "encoder.pt");
  EXPECT_EQ(read.encoder->margin, 3);
  EXPECT_EQ(read.encoder->level, 0.1);
  ASSERT_EQ(read.conditions.size(), 3u);
  EXPECT_EQ(read.conditions[1].name, kVisible);
  EXPECT_EQ(read.conditions[1].shape, (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(read.conditions[2].shape, (std::vector<int64_t>{1, 16}));
  EXPECT_TRUE(read.conditions[2].zero_null);
}

}  // namespace
}  // namespace bespoke
