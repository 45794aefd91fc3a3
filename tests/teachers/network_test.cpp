// The networks that are trained here, and the files they become.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <cmath>
#include <functional>
#include <string>

#include "../support.h"
#include "../temporary_folder.h"
#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "teachers/classifier.h"
#include "teachers/export.h"
#include "teachers/transformer.h"
#include "teachers/unet.h"
#include "teachers/weights.h"

namespace bespoke {

using namespace detail;
namespace {

using testing::relative_error;
using testing::TemporaryFolder;

const NetworkShape kImages = {{3, 16, 16}, 4};
const NetworkShape kSounds = {{1, 64}, 3};
const NetworkShape kCaptioned = {{3, 16, 16}, 0, 9, 5};

struct Case {
  std::string name;
  NetworkShape shape;
  std::function<TeacherPtr(const NetworkShape&)> make;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

TeacherPtr small_transformer(const NetworkShape& shape) {
  return make_transformer(shape, {4, 32, 2, 4, 2});
}

TeacherPtr small_unet(const NetworkShape& shape) {
  return make_unet(shape, {16, {1, 2}, 1, {8, 32}});
}

std::vector<Case> all_networks() {
  return {{"TransformerOnImages", kImages, small_transformer},
          {"TransformerOnSounds", kSounds, small_transformer},
          {"TransformerOnCaptions", kCaptioned, small_transformer},
          {"UNetOnImages", kImages, small_unet},
          {"UNetOnSounds", kSounds, small_unet}};
}

// A network whose zero-initialised layers have learned something.
TeacherPtr awake(const Case& one) {
  torch::manual_seed(1);
  const TeacherPtr network = one.make(one.shape);
  torch::NoGradGuard no_grad;
  for (auto& parameter : network->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  // What is stored in half precision must not differ by its rounding.
  set_weights(*network, copy_weights(*network).to(torch::kHalf).to(torch::kFloat));
  return network;
}

torch::Tensor batch_of(const NetworkShape& shape, int64_t batch) {
  std::vector<int64_t> sizes = {batch};
  sizes.insert(sizes.end(), shape.sample.begin(), shape.sample.end());
  return torch::randn(sizes);
}

// Classes 1, 2, 0, 1 ..., or captions of words that differ as much.
torch::Tensor conditions_of(const NetworkShape& shape, int64_t batch) {
  const torch::Tensor classes = torch::arange(1, batch + 1, torch::kLong).remainder(3);
  if (!shape.has_captions()) return classes;
  return (classes.unsqueeze(1) + torch::arange(shape.tokens, torch::kLong)).remainder(shape.words) +
         1;
}

class Network : public ::testing::TestWithParam<Case> {};

TEST_P(Network, AnswersWithTheShapeOfItsInputAndUsesAllOfIt) {
  const TeacherPtr network = awake(GetParam());
  const auto& shape = GetParam().shape;
  const torch::Tensor x = batch_of(shape, 3), t = torch::rand({3});
  const torch::Tensor y = conditions_of(shape, 3);
  const torch::Tensor out = network->forward(x, t, y);
  EXPECT_EQ(out.sizes(), x.sizes());
  EXPECT_GT(relative_error(network->forward(x, t + 0.1, y), out), 1e-3);
  EXPECT_GT(relative_error(network->forward(x, t, torch::full_like(y, shape.null())), out), 1e-3);
  // Every place reaches every other: attention, or a U-Net's depth.
  torch::Tensor moved = x.clone();
  moved.reshape({3, shape.sample[0], -1}).select(2, 0) += 1;
  const torch::Tensor far =
      (network->forward(moved, t, y) - out).reshape({3, shape.sample[0], -1}).select(2, -1);
  EXPECT_GT(far.abs().max().item<double>(), 0);
}

TEST_P(Network, DoesNotMixSamplesOfABatch) {
  const TeacherPtr network = awake(GetParam());
  const torch::Tensor x = batch_of(GetParam().shape, 4), t = torch::rand({4});
  const torch::Tensor y = conditions_of(GetParam().shape, 4);
  const torch::Tensor whole = network->forward(x, t, y);
  const torch::Tensor part = network->forward(x.slice(0, 1, 3), t.slice(0, 1, 3), y.slice(0, 1, 3));
  EXPECT_LT(relative_error(part, whole.slice(0, 1, 3)), 1e-5);
}

TEST_P(Network, IsTheSameFromItsFileForAnyBatch) {
  const TeacherPtr network = awake(GetParam());
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.pt";
  export_teacher(*network, GetParam().shape, path);
  torch::jit::Module file = torch::jit::load(path.string());
  file.to(torch::kFloat);
  for (const int64_t batch : {1, 2, 5}) {
    const torch::Tensor x = batch_of(GetParam().shape, batch), t = torch::rand({batch});
    const torch::Tensor y = conditions_of(GetParam().shape, batch);
    EXPECT_LT(relative_error(file.forward({x, t, y}).toTensor(), network->forward(x, t, y)), 1e-6);
  }
}

TEST(CaptionedNetwork, HearsTheOrderOfWords) {
  const TeacherPtr network = awake({"", kCaptioned, small_transformer});
  const torch::Tensor x = batch_of(kCaptioned, 1), t = torch::rand({1});
  const torch::Tensor y = conditions_of(kCaptioned, 1);
  EXPECT_GT(relative_error(network->forward(x, t, y.flip(1)), network->forward(x, t, y)), 1e-4);
}

TEST_P(Network, CanBeExportedTwiceAndUsedAfterwards) {
  const TeacherPtr network = awake(GetParam());
  const TemporaryFolder folder;
  export_teacher(*network, GetParam().shape, folder.path() / "one.pt");
  export_teacher(*network, GetParam().shape, folder.path() / "two.pt");
  EXPECT_EQ(network->parameters().front().scalar_type(), torch::kFloat);
}

TEST_P(Network, HasGradientsInSampleAndTimeFromItsFile) {
  const TeacherPtr network = awake(GetParam());
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.pt";
  export_teacher(*network, GetParam().shape, path);
  torch::jit::Module file = torch::jit::load(path.string());
  file.to(torch::kDouble);
  const torch::Tensor x = batch_of(GetParam().shape, 1).to(torch::kDouble).requires_grad_();
  const torch::Tensor t = torch::full({1}, 0.4, torch::kDouble).requires_grad_();
  const torch::Tensor y = conditions_of(GetParam().shape, 1);
  const auto value = [&](const torch::Tensor& at, const torch::Tensor& time) {
    return file.forward({at, time, y}).toTensor().square().sum();
  };
  const auto gradient = torch::autograd::grad({value(x, t)}, {x, t});
  torch::NoGradGuard no_grad;
  const double h = 1e-5;
  const torch::Tensor direction = torch::randn_like(x);
  const auto difference = (value(x + h * direction, t) - value(x - h * direction, t)) / (2 * h);
  EXPECT_NEAR(difference.item<double>(), (gradient[0] * direction).sum().item<double>(),
              1e-6 * std::abs(difference.item<double>()) + 1e-7);
  const auto in_time = (value(x, t + h) - value(x, t - h)) / (2 * h);
  EXPECT_NEAR(in_time.item<double>(), gradient[1].item<double>(),
              1e-6 * std::abs(in_time.item<double>()) + 1e-7);
}

INSTANTIATE_TEST_SUITE_P(All, Network, ::testing::ValuesIn(all_networks()),
                         [](const auto& info) { return info.param.name; });

TEST(Transformer, RefusesPatchesThatDoNotDivideTheImage) {
  EXPECT_THROW(make_transformer({{3, 30, 30}, 2}, {4, 32, 2, 4, 2}), Error);
  EXPECT_THROW(make_transformer(kImages, {4, 30, 2, 4, 2}), Error);
}

TEST(UNet, RefusesSizesThatCannotBeHalved) {
  EXPECT_THROW(make_unet({{3, 18, 18}, 2}, {16, {1, 2, 2}, 1, {}}), Error);
}

TEST(Features, AreTheSameFromTheirFile) {
  for (const NetworkShape& shape : {kImages, kSounds}) {
    Classifier network(shape);
    set_weights(network, copy_weights(network).to(torch::kHalf).to(torch::kFloat));
    const TemporaryFolder folder;
    const auto answer = [&](const char* name, const torch::Tensor& x) {
      torch::jit::Module file = torch::jit::load((folder.path() / name).string());
      file.to(torch::kFloat);
      return file.forward({x}).toTensor();
    };
    export_features(network, shape, folder.path() / "features.pt");
    export_classifier(network, shape, folder.path() / "classifier.pt");
    const torch::Tensor x = batch_of(shape, 3), features = answer("features.pt", x);
    EXPECT_EQ(features.sizes(), (std::vector<int64_t>{3, Classifier::kFeatures}));
    EXPECT_LT(relative_error(features, network.features(x)), 1e-6);
    EXPECT_LT(relative_error(answer("classifier.pt", x), network.forward(x)), 1e-6);
  }
}

TEST(Features, TellWhereSomethingIs) {
  Classifier network(kImages);
  torch::Tensor x = torch::zeros({2, 3, 32, 32});
  x.index_put_({0, torch::indexing::Slice(), 14, 14}, 1);
  x.index_put_({1, torch::indexing::Slice(), 18, 18}, 1);
  const torch::Tensor features = network.features(x);
  EXPECT_GT(relative_error(features[0], features[1]), 1e-4);
}

TEST(TeacherCard, ReadsBackAsWhatWasTrained) {
  ModelCard card;
  card.format = "torchscript";
  card.name = "mine";
  card.weights = "somewhere/model.pt";
  card.prediction = Prediction::noise;
  card.schedule = vp_schedule();
  card.sample_rate = 8000;
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "model.pt", "weights");
  const ModelCard read =
      parse_model_card(teacher_card_text(card, kSounds, {}), folder.path() / "model.json");
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(read.prediction, Prediction::noise);
  EXPECT_EQ(read.schedule->name(), "vp");
  EXPECT_EQ(read.sample_shape, kSounds.sample);
  EXPECT_EQ(read.sample_rate, 8000);
  EXPECT_EQ(read.conditions.front().classes, kSounds.classes);
  EXPECT_EQ(read.conditions.front().null, kSounds.null());
}

TEST(TeacherCard, HoldsTheWordsOfCaptionsAndTheDecoderOfLatents) {
  ModelCard card;
  card.format = "torchscript";
  card.weights = "model.pt";
  card.schedule = fm_ot_schedule();
  card.decoder = DecoderCard{"decoder.pt", "", 1.5, -0.25, {3, 64, 64}};
  const std::vector<std::string> words = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  const ModelCard read = parse_model_card(teacher_card_text(card, kCaptioned, words), "model.json");
  EXPECT_EQ(read.conditions.front().vocabulary, words);
  EXPECT_EQ(read.conditions.front().shape, std::vector<int64_t>{kCaptioned.tokens});
  EXPECT_TRUE(read.conditions.front().has_null());
  ASSERT_TRUE(read.decoder);
  EXPECT_EQ(read.decoder->scale, 1.5);
  EXPECT_EQ(read.decoder->shift, -0.25);
  EXPECT_EQ(read.decoder->sample_shape, (std::vector<int64_t>{3, 64, 64}));
}

}  // namespace
}  // namespace bespoke
