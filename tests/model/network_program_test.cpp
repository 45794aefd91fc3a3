// What every format of a network has in common, on a stand-in for the program that runs it.

#include "bespoke/model/network_program.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

#include "bespoke/model/script_sampler.h"
#include "bespoke/solver/catalogue.h"
#include "refusal.h"

namespace bespoke {
namespace {

using testing::refusal;

// How a stand-in behaves, and what it was called on.
struct Doubling {
  int64_t takes = 100, fits = 100;  // samples at once
  bool keeps_output = false, answers_twice = false;
  torch::Tensor buffer = torch::empty({100, 3});
  std::vector<int64_t> sizes;  // of the batches
};

// Doubles its first argument, in the manner of a compiled network.
class Doubler : public NetworkProgram {
 public:
  explicit Doubler(Doubling& how) : how_(how) {}

  torch::IValue run(const std::vector<torch::Tensor>& arguments) override {
    const torch::Tensor& x = arguments.front();
    if (x.size(0) > how_.fits) throw std::runtime_error("out of memory");
    how_.sizes.push_back(x.size(0));
    if (how_.keeps_output) return how_.buffer.slice(0, 0, x.size(0)).copy_(2 * x);
    if (how_.answers_twice) return std::vector<torch::Tensor>{x, x};
    return x.mul_(2).clone();
  }

  NetworkArguments arguments() const override { return {{"x", "time"}, 2}; }
  int64_t parameter_count() const override { return 7; }
  bool has_gradients() const override { return false; }
  int64_t most_at_once() const override { return how_.takes; }

 private:
  Doubling& how_;
};

NetworkPtr doubling_network(Doubling& how, const NetworkOptions& options = {}) {
  return make_network(std::make_unique<Doubler>(how), "double.pt2", options);
}

ModelCard card() {
  ModelCard result;
  result.name = "double";
  result.sample_shape = {3};
  result.schedule = fm_ot_schedule();
  return result;
}

const torch::Tensor kInput = torch::arange(30, torch::kFloat).reshape({10, 3});

TEST(NetworkProgram, IsCalledOnBatchesNoLargerThanItTakes) {
  Doubling how;
  how.takes = 4;
  const NetworkPtr network = doubling_network(how);
  EXPECT_TRUE(torch::equal(call_network(*network, kInput), 2 * kInput));
  EXPECT_EQ(how.sizes, (std::vector<int64_t>{4, 4, 2}));
}

TEST(NetworkProgram, IsCalledOnHalvesWhereMemoryRunsOut) {
  Doubling how;
  how.fits = 3;
  const NetworkPtr network = doubling_network(how);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(call_network(*network, kInput), 2 * kInput));
  EXPECT_EQ(how.sizes, (std::vector<int64_t>{2, 2, 2, 2, 2}));
}

TEST(NetworkProgram, IsCalledOneByOneWhereAsked) {
  NetworkOptions options;
  options.one_by_one = true;
  Doubling how;
  const NetworkPtr network = doubling_network(how, options);
  EXPECT_TRUE(torch::equal(call_network(*network, kInput), 2 * kInput));
  EXPECT_EQ(how.sizes, std::vector<int64_t>(10, 1));
}

TEST(NetworkProgram, HasGradientsOrSaysThatItHasNone) {
  Doubling how;
  const NetworkPtr network = doubling_network(how);
  EXPECT_FALSE(has_gradients(*network));
  EXPECT_EQ(parameter_count(*network), 7);
  const torch::Tensor leaf = kInput.clone().requires_grad_();
  const std::string message = refusal([&] { call_network(*network, leaf); });
  EXPECT_NE(message.find("double.pt2 is compiled and has no gradients"), std::string::npos)
      << message;
  // Nobody asks for them here, whatever the mode.
  EXPECT_FALSE(call_network(*network, kInput).requires_grad());
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(call_network(*network, leaf), 2 * kInput));
}

TEST(NetworkProgram, NeitherWritesIntoItsInputNorOverItsOutput) {
  Doubling how;
  const NetworkPtr network = doubling_network(how);
  const torch::Tensor before = kInput.clone();
  call_network(*network, kInput);
  EXPECT_TRUE(torch::equal(kInput, before));
  EXPECT_TRUE(network_habits(*network).writes_input);
  how.keeps_output = true;
  const torch::Tensor first = call_network(*network, kInput);
  call_network(*network, kInput + 1);
  EXPECT_TRUE(torch::equal(first, 2 * kInput));
  EXPECT_TRUE(network_habits(*network).returns_buffer);
}

TEST(NetworkProgram, IsRefusedWhereItDoesNotFitTheCard) {
  Doubling how;
  const NetworkPtr network = doubling_network(how);
  ModelCard longer = card();
  longer.conditions.resize(1);
  longer.conditions[0].name = "y";
  const std::string message = refusal([&] { network_model(network, longer); });
  EXPECT_NE(message.find("takes 2 arguments (x, time), the card gives it 3 (x, the time, y)"),
            std::string::npos)
      << message;
  const ModelPtr model = network_model(network, card());
  const auto predict = [&] {
    return model->predict(kInput, torch::zeros({10}, torch::kDouble), {});
  };
  EXPECT_TRUE(torch::equal(predict(), 2 * kInput));
  how.answers_twice = true;
  EXPECT_NE(refusal(predict).find("double.pt2 returned no tensor"), std::string::npos);
}

TEST(NetworkProgram, IsNoTorchScriptUnlessItSaysSo) {
  Doubling how;
  const NetworkPtr network = doubling_network(how);
  SolverFile file;
  file.put({make_solver("euler", {2, fm_ot_schedule()}), {}});
  const std::string message = refusal([&] { script_sampler(file, *network, card()); });
  EXPECT_NE(message.find("double.pt2 is compiled"), std::string::npos) << message;
}

}  // namespace
}  // namespace bespoke
