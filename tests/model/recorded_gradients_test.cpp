#include "bespoke/model/recorded_gradients.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support.h"

namespace bespoke {
namespace {

using Tensors = std::vector<torch::Tensor>;

// Recordings that make the call again, as a graph would run its kernels again, and count.
struct Recorder {
  int recordings = 0, replays = 0;

  CallRecorder recorder() {
    return [this](const Tensors&, const TensorCall& call) {
      ++recordings;
      return std::make_unique<Recorded>(call, replays);
    };
  }

 private:
  struct Recorded : RecordedCall {
    Recorded(TensorCall call, int& replays) : call(std::move(call)), replays(replays) {}
    torch::Tensor replay(const Tensors& arguments) override {
      ++replays;
      const torch::NoGradGuard no_grad;
      Tensors copies;
      for (const auto& argument : arguments) copies.push_back(argument.clone());
      return call(copies);
    }
    TensorCall call;
    int& replays;
  };
};

// A network of x, t and a condition that writes into its input, as networks may.
torch::Tensor network(const Tensors& given) {
  const auto per_sample = [&](size_t i) {
    return given[i].to(given[0].scalar_type()).unsqueeze(1);
  };
  const torch::Tensor x = given[0].mul_(2);
  return torch::sin(x * per_sample(1)) * per_sample(2) + x.pow(2);
}

struct Gradients {
  torch::Tensor output, x, t;
};

// By recordings or by LibTorch alone, with numbers that differ from call to call.
Gradients gradients_of(int call, torch::Tensor t, CallGraphs* calls, CallGraphs* gradients) {
  torch::manual_seed(static_cast<uint64_t>(call));
  const torch::Tensor x = torch::randn({3, 4}, torch::kDouble).requires_grad_();
  const torch::Tensor cotangent = torch::randn({3, 4}, torch::kDouble);
  const bool differentiable = t.is_floating_point();
  if (differentiable) t = (t + 0.1 * call).detach().requires_grad_();
  const Tensors arguments = {x, t, torch::arange(3, torch::kLong)};
  const Tensors copies = {x.clone(), t.clone(), arguments[2]};
  const torch::Tensor output =
      calls != nullptr ? call_with_recorded_gradients(arguments, network, *calls, *gradients)
                       : network(copies);
  Tensors inputs = {x};
  if (differentiable) inputs.push_back(t);
  const auto found = torch::autograd::grad({output}, inputs, {cotangent});
  return {output.detach(), found[0], differentiable ? found[1] : torch::Tensor()};
}

TEST(RecordedGradients, AreThoseOfTheCall) {
  Recorder recorder, gradient_recorder;
  CallGraphs calls(recorder.recorder()), gradients(gradient_recorder.recorder());
  const torch::Tensor t = torch::rand({3}, torch::kDouble);
  for (int call = 0; call < 2 * static_cast<int>(CallGraphs::kCallsBefore); ++call) {
    const Gradients found = gradients_of(call, t, &calls, &gradients);
    const Gradients expected = gradients_of(call, t, nullptr, nullptr);
    EXPECT_LT(testing::relative_error(found.output, expected.output), 1e-14) << call;
    EXPECT_LT(testing::relative_error(found.x, expected.x), 1e-14) << call;
    EXPECT_LT(testing::relative_error(found.t, expected.t), 1e-14) << call;
  }
  EXPECT_EQ(recorder.recordings, 1);
  EXPECT_EQ(gradient_recorder.recordings, 1);
  EXPECT_EQ(gradient_recorder.replays, static_cast<int>(CallGraphs::kCallsBefore));
}

TEST(RecordedGradients, IntegerTimesHaveNone) {
  Recorder recorder;
  CallGraphs calls(recorder.recorder()), gradients(recorder.recorder());
  const torch::Tensor t = torch::tensor({3, 1, 4}, torch::kLong);
  const Gradients found = gradients_of(1, t, &calls, &gradients);
  EXPECT_LT(testing::relative_error(found.x, gradients_of(1, t, nullptr, nullptr).x), 1e-14);
}

TEST(RecordedGradients, SeveralCallsMayWaitForTheirs) {
  Recorder recorder;
  CallGraphs calls(recorder.recorder()), gradients(recorder.recorder());
  const torch::Tensor x = torch::randn({3, 4}, torch::kDouble).requires_grad_();
  const torch::Tensor t = torch::rand({3}, torch::kDouble), y = torch::arange(3, torch::kLong);
  const auto twice = [&](const auto& call) {
    const torch::Tensor once = call({x, t, y});
    const torch::Tensor sum = call({once, t + 1, y}).sum();
    return torch::autograd::grad({sum}, {x})[0];
  };
  const auto found = twice([&](const Tensors& given) {
    return call_with_recorded_gradients(given, network, calls, gradients);
  });
  const auto expected = twice([](const Tensors& given) {
    return network({given[0].clone(), given[1], given[2]});
  });
  EXPECT_LT(testing::relative_error(found, expected), 1e-13);
}

TEST(RecordedGradients, RefuseWhatWouldGiveOthers) {
  Recorder recorder;
  CallGraphs calls(recorder.recorder()), gradients(recorder.recorder());
  const torch::Tensor x = torch::randn({3, 4}, torch::kDouble).requires_grad_();
  const torch::Tensor t = torch::rand({3}, torch::kDouble);
  const auto output = [&] {
    return call_with_recorded_gradients({x, t, torch::arange(3, torch::kLong)}, network, calls,
                                        gradients);
  };
  const torch::Tensor once = output();
  torch::autograd::grad({once.sum()}, {x});
  EXPECT_THROW(torch::autograd::grad({once.sum()}, {x}), std::exception);
  const torch::Tensor again = output();
  EXPECT_THROW(torch::autograd::grad({again.sum()}, {x}, {}, true, /*create_graph=*/true),
               std::exception);
  const torch::Tensor late = output();
  t.add_(1);
  EXPECT_THROW(torch::autograd::grad({late.sum()}, {x}), std::exception);
}

}  // namespace
}  // namespace bespoke
