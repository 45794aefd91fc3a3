#include "bespoke/model/script_sampler.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include <sstream>

#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "refusal.h"
#include "support.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

constexpr int64_t kSampleCount = 5;

class ScriptSampler : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    torch::jit::Module module("network");
    module.register_buffer("shift", torch::randn({4}));
    module.define(R"(def forward(self, x, t, y, c):
    s = torch.sin(t.to(x.dtype) * 0.01 + y.to(x.dtype)).unsqueeze(1)
    x.add_(0.0)
    return torch.tanh(0.7 * x + s + self.shift * c) + 0.1 * x * s
)");
    module.save((temporary_.path() / "weights.pt").string());
    card_.name = "test";
    card_.format = "torchscript";
    card_.weights = temporary_.path() / "weights.pt";
    card_.sample_shape = {4};
    card_.schedule = make_schedule("ddpm-linear");
    card_.prediction = Prediction::noise;
    card_.time.convention = TimeConvention::index;
    card_.time.levels = 1000;
    ConditionCard y, c;
    y.name = "class";  // no name in TorchScript
    y.classes = y.null = 3;
    c.name = "c";
    c.shape = {4};
    card_.conditions = {y, c};
  }

  Conditions given() const {
    return {{"class", torch::tensor({0, 1, 2, 1, 0})}, {"c", torch::randn({kSampleCount, 4})}};
  }

  SolverFile solver() const {
    return {"mine",
            {card_.prediction, card_.schedule, 0},
            {{make_solver("dpm++2m", {5, card_.schedule, "lambda-range"})}}};
  }

  // The largest difference of the module's samples from the library's, beside their size.
  double error(const ScriptSamplerOptions& options, torch::ScalarType dtype = torch::kFloat) const {
    const NetworkPtr network = load_network(card_, {torch::kCPU, dtype});
    const Conditions conditions = given();
    ModelPtr model = network_model(network, card_);
    if (!options.guidance.is_zero()) {
      model = guided_model(model, options.guidance, options.null_conditions);
    }
    const torch::Tensor noise = torch::randn({kSampleCount, 4}).reshape(noise_shape());
    Conditions all = conditions;
    std::istringstream stream(script_sampler(solver(), *network, card_, options));
    torch::jit::Module module = torch::jit::load(stream);
    std::vector<torch::IValue> inputs = {noise, conditions.at("class"), conditions.at("c")};
    if (options.guidance.range) {
      all[kGuidanceCondition] = torch::linspace(0, 4, kSampleCount, torch::kDouble);
      inputs.emplace_back(all[kGuidanceCondition]);
    }
    const torch::Tensor start = (card_.schedule->source_std() * noise).to(state_dtype(*model));
    const torch::Tensor expected = sample(solver().at(), VelocityField(model), start, all);
    const torch::Tensor found = module.forward(inputs).toTensor();
    EXPECT_EQ(found.scalar_type(), expected.scalar_type());
    return testing::relative_error(found, expected);
  }

  std::vector<int64_t> noise_shape() const {
    std::vector<int64_t> shape = card_.sample_shape;
    shape.insert(shape.begin(), kSampleCount);
    return shape;
  }

  testing::TemporaryFolder temporary_;
  ModelCard card_;
};

TEST_F(ScriptSampler, DrawsTheSamplesInEveryPrecision) {
  EXPECT_LT(error({}), 1e-5);
  EXPECT_LT(error({}, torch::kDouble), 1e-6);  // its noise was float32
  EXPECT_LT(error({}, torch::kBFloat16), 1e-3);
}

TEST_F(ScriptSampler, DrawsTheSamplesOfEveryPredictionAndConvention) {
  for (const auto& name : prediction_names()) {
    for (const auto convention :
         {TimeConvention::noise_to_data, TimeConvention::sigma, TimeConvention::log_sigma}) {
      card_.prediction = parse_prediction(name);
      card_.time = {convention};
      card_.input_scaling = name == "edm" ? InputScaling::edm : InputScaling::none;
      EXPECT_LT(error({}), 1e-4) << name << " " << static_cast<int>(convention);
    }
  }
  card_.schedule = edm_schedule(40);
  EXPECT_LT(error({}), 1e-4);
  card_.time = {TimeConvention::index, 1, 500, true};
  EXPECT_LT(error({}), 1e-4);
}

TEST_F(ScriptSampler, ClipsTheGuidedDataPrediction) {
  const Conditions null = {{"class", torch::tensor({3})}};
  for (const Clip& clip : {Clip{-0.5, 0.4}, Clip{-0.5, 0.5, 0.6, 2}}) {
    card_.clip = clip;
    for (const auto& name : prediction_names()) {
      card_.prediction = parse_prediction(name);
      EXPECT_LT(error({}), 1e-4) << name;
    }
    card_.prediction = Prediction::noise;
    EXPECT_LT(error({2.0, null}), 1e-4);
    EXPECT_LT(error({parse_guidance("0-4", false, "w"), null}), 1e-4);
  }
}

TEST_F(ScriptSampler, IsGuided) {
  const Conditions null = {{"class", torch::tensor({3})}};
  EXPECT_LT(error({2.0, null}), 1e-5);
  EXPECT_LT(error({2.0, null}, torch::kBFloat16), 1e-3);
  EXPECT_LT(error({parse_guidance("0:3,1:0.5", false, "w"), null}), 1e-5);
  EXPECT_LT(error({parse_guidance("0-4", false, "w"), null}), 1e-5);
  GuidanceWeight within = 2.0;
  parse_guidance_interval(within, "0.2,0.6", "interval");
  EXPECT_LT(error({within, null}), 1e-5);
}

TEST_F(ScriptSampler, CallsNetworksOfOtherForms) {
  torch::jit::Module module("network");
  module.define(R"(def forward(self, x, y, c):
    s = torch.sin(y.to(x.dtype)).reshape([-1, 1, 1])
    return torch.cat([torch.tanh(0.7 * x + s), x.exp() + c.sum()], 2)
)");
  module.save((temporary_.path() / "weights.pt").string());
  card_.sample_shape = {2, 2};
  card_.extra_channels = 2;
  card_.channels_last = true;
  card_.time = {TimeConvention::none};
  const Conditions null = {{"class", torch::tensor({3})}};
  EXPECT_LT(error({}), 1e-5);
  EXPECT_LT(error({2.0, null}), 1e-5);
}

TEST_F(ScriptSampler, SaysWhatIsWrong) {
  const NetworkPtr network = load_network(card_);
  EXPECT_NE(testing::refusal([&] {
              script_sampler(solver(), *network, card_, {2.0, {}});
            }).find("null value"),
            std::string::npos);
  card_.conditions.pop_back();
  const std::string message = testing::refusal([&] { script_sampler(solver(), *network, card_); });
  EXPECT_NE(message.find("cannot be put into one file"), std::string::npos) << message;
}

}  // namespace
}  // namespace bespoke
