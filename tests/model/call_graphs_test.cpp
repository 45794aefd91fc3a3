#include "bespoke/model/call_graphs.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

#include "support.h"

namespace bespoke {
namespace {

using Tensors = std::vector<torch::Tensor>;
constexpr int kBefore = static_cast<int>(CallGraphs::kCallsBefore);

// Counts the calls of a function, made and recorded; replays add a thousand.
struct Counted {
  int calls = 0, recordings = 0, replays = 0;
  bool recordable = true;
  std::vector<std::string> failures;
  CallGraphs graphs{[this](const Tensors&, const TensorCall&) { return record(); },
                    [this](const std::string& why) { failures.push_back(why); }};

  torch::Tensor call(const Tensors& arguments) {
    return graphs.call(arguments, [this](const Tensors& given) {
      ++calls;
      return given[0].add_(1);
    });
  }

  void call_often(int64_t batch, int times) {
    for (int i = 0; i < times; ++i) call({torch::zeros({batch, 2})});
  }

 private:
  struct Recorded : RecordedCall {
    explicit Recorded(int& replays) : replays(replays) {}
    torch::Tensor replay(const Tensors& arguments) override {
      ++replays;
      return arguments[0] + 1000;
    }
    int& replays;
  };

  std::unique_ptr<RecordedCall> record() {
    ++recordings;
    if (!recordable) throw std::runtime_error("operation not permitted when stream is capturing");
    return std::make_unique<Recorded>(replays);
  }
};

TEST(CallGraphs, RecordsAShapeThatRecursAndReplaysIt) {
  Counted counted;
  const torch::Tensor x = torch::zeros({3, 2});
  for (int i = 0; i < kBefore; ++i) EXPECT_EQ(counted.call({x})[0][0].item<float>(), 1);
  EXPECT_EQ(counted.call({x})[0][0].item<float>(), 1000);
  EXPECT_EQ(counted.call({x})[0][0].item<float>(), 1000);
  EXPECT_EQ(counted.calls, kBefore);
  EXPECT_EQ(counted.recordings, 1);
  EXPECT_EQ(x.abs().max().item<float>(), 0);  // the function was given copies to write into
}

TEST(CallGraphs, AShapeIsSizesAndTypesOfAllArguments) {
  Counted counted;
  const torch::Tensor x = torch::zeros({3, 2}), y = torch::zeros({3}, torch::kLong);
  for (int i = 0; i < kBefore; ++i) {
    counted.call({x});
    counted.call({x.to(torch::kDouble)});
    counted.call({x.slice(0, 0, 2)});
    counted.call({x, y});
    counted.call({x.unsqueeze(2)});
  }
  EXPECT_EQ(counted.recordings, 0);
  counted.call({x, y});
  EXPECT_EQ(counted.recordings, 1);
}

TEST(CallGraphs, KeepsTheRecordingsUsedLast) {
  Counted counted;
  const auto most = static_cast<int64_t>(CallGraphs::kMostGraphs);
  for (int64_t batch = 1; batch <= most + 1; ++batch) {
    counted.call_often(batch, kBefore + 1);
    counted.call_often(1, 1);
  }
  counted.replays = counted.calls = 0;
  counted.call_often(1, 1);
  EXPECT_EQ(counted.replays, 1);
  counted.call_often(2, kBefore);  // the one forgotten has to prove itself again
  EXPECT_EQ(counted.calls, kBefore);
  counted.call_often(2, 1);
  EXPECT_EQ(counted.replays, 2);
}

TEST(CallGraphs, ForgetsShapesThatDoNotRecur) {
  Counted counted;
  counted.call_often(1, kBefore);
  for (size_t i = 0; i < CallGraphs::kMostShapes; ++i) {
    counted.call_often(2 + static_cast<int64_t>(i), 1);
  }
  counted.call_often(1, 1);
  EXPECT_EQ(counted.recordings, 0);
}

TEST(CallGraphs, WhereRecordingFailsItCallsPlainlyAndSaysSoOnce) {
  Counted counted;
  counted.recordable = false;
  counted.call_often(3, 2 * kBefore);
  counted.call_often(4, 2 * kBefore);
  EXPECT_EQ(counted.calls, 4 * kBefore);
  EXPECT_EQ(counted.recordings, 1);
  ASSERT_EQ(counted.failures.size(), 1u);
  EXPECT_NE(counted.failures[0].find("not permitted"), std::string::npos);
}

TEST(CallGraphs, GivesItsMemoryBackOnce) {
  Counted counted;
  counted.call_often(3, kBefore + 1);
  EXPECT_TRUE(counted.graphs.give_up("memory"));
  EXPECT_FALSE(counted.graphs.give_up("memory"));
  EXPECT_EQ(counted.failures, std::vector<std::string>{"memory"});
  counted.call_often(3, 2 * kBefore);
  EXPECT_EQ(counted.recordings, 1);
}

// On a GPU, the graphs themselves.
class CudaGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
    graphs_ = std::make_unique<CallGraphs>(cuda_graph_recorder(),
                                           [this](const std::string& why) { why_ = why; });
  }

  // Calls of two batch sizes by turns, each with numbers of its own and compared with the truth.
  void expect_right(const TensorCall& call, const TensorCall& truth) {
    std::vector<torch::Tensor> kept, expected;
    for (int i = 0; i < 4 * kBefore; ++i) {
      const auto x = torch::randn({2 + i % 2, 64}, torch::kFloat).to(torch::kCUDA);
      const torch::NoGradGuard no_grad;
      kept.push_back(graphs_->call({x}, call));
      expected.push_back(truth({x.clone()}));
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_LT(testing::relative_error(kept[i].cpu(), expected[i].cpu()), 1e-5) << i;
    }
  }

  std::unique_ptr<CallGraphs> graphs_;
  std::string why_;
};

TEST_F(CudaGraph, AnswersAsTheCallsDo) {
  const auto weights = torch::randn({64, 64}, torch::kFloat).to(torch::kCUDA) / 8;
  int calls = 0;
  const auto f = [&](const Tensors& given) {
    ++calls;
    return torch::tanh(given[0].mm(weights)).mm(weights);
  };
  expect_right(f, f);
  EXPECT_EQ(why_, "");
  // Truth, calls before, warm-ups, recording and check of two shapes.
  EXPECT_LT(calls, 4 * kBefore + 2 * (kBefore + 6));
}

TEST_F(CudaGraph, ArgumentsMayBeWrittenInto) {
  expect_right([](const Tensors& given) { return given[0].sin_().add_(1); },
               [](const Tensors& given) { return given[0].sin() + 1; });
  EXPECT_EQ(why_, "");
}

TEST_F(CudaGraph, WhatReadsTheDeviceIsCalledPlainly) {
  const auto f = [](const Tensors& given) {
    return given[0].sum().item<float>() > 0 ? given[0] + 1 : given[0] - 1;
  };
  expect_right(f, f);
  EXPECT_NE(why_, "");
  // And the device still works, recordings of others included.
  why_ = "";
  SetUp();
  const auto g = [](const Tensors& given) { return given[0].exp(); };
  expect_right(g, g);
  EXPECT_EQ(why_, "");
}

}  // namespace
}  // namespace bespoke
