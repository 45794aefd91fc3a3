#include "bespoke/model/sample_parts.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include <string>

#include "bespoke/base/file.h"
#include "bespoke/model/network.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

// Nodes and edges that look at each other. By their names nodes would come first; in the card they
// come last.
constexpr char kForward[] = R"(
def forward(self, edges: Tensor, nodes: Tensor, t: Tensor, scale: Tensor):
    s = t.reshape([-1, 1, 1])
    mean = nodes.mean([1, 2], True).unsqueeze(3)
    return edges * s.unsqueeze(3) + mean, (nodes - edges.sum(3)[:, :, :2]) * scale.reshape([-1, 1, 1])
)";

class SampleParts : public ::testing::Test {
 protected:
  ModelPtr model_of(const std::string& forward, const std::string& more = "") const {
    torch::jit::Module module("graph");
    module.define(forward);
    module.save((folder_.path() / "graph.pt").string());
    return load_model(parse_model_card(card_text(more), folder_.path() / "model.json"), {});
  }

  static std::string card_text(const std::string& more) {
    return R"({"format": "torchscript", "weights": "graph.pt", "prediction": "velocity",
               "sample_shape": {"edges": [3, 3, 2], "nodes": [3, 2]}, "schedule": {"name": "fm-ot"},
               "time": {"convention": "noise-to-data"},
               "conditions": [{"name": "scale", "shape": [1]}])" +
           more + "}";
  }

  std::string problem(const std::string& forward, const std::string& more = "") const {
    return testing::refusal([&] {
      model_of(forward, more)
          ->predict(torch::zeros({2, 24}), torch::zeros({2}, torch::kDouble),
                    {{"scale", torch::ones({2, 1})}});
    });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SampleParts, AreGivenAndReturnedInTheOrderOfTheCard) {
  const ModelPtr model = model_of(kForward);
  EXPECT_EQ(model->sample_shape(), std::vector<int64_t>{24});
  const torch::Tensor edges = torch::randn({2, 3, 3, 2}), nodes = torch::randn({2, 3, 2});
  const torch::Tensor t = torch::tensor({0.25, 0.75}, torch::kDouble);
  const torch::Tensor scale = torch::tensor({{2.0f}, {3.0f}});
  const torch::Tensor found =
      model->predict(torch::cat({edges.flatten(1), nodes.flatten(1)}, 1), t, {{"scale", scale}});
  const torch::Tensor s = t.to(torch::kFloat).reshape({2, 1, 1, 1});
  const torch::Tensor of_edges = edges * s + nodes.mean({1, 2}).reshape({2, 1, 1, 1});
  const torch::Tensor of_nodes = (nodes - edges.sum(3).slice(2, 0, 2)) * scale.reshape({2, 1, 1});
  const auto parts = parse_model_card(card_text(""), "card").parts;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts.front().name, "edges");
  const auto split = split_into_parts(found, parts);
  EXPECT_TRUE(torch::allclose(split[0], of_edges));
  EXPECT_TRUE(torch::allclose(split[1], of_nodes));
  EXPECT_TRUE(torch::equal(joined_parts(split), found));
}

TEST_F(SampleParts, ThatDoNotFitAreNamed) {
  const std::string head = "def forward(self, e: Tensor, n: Tensor, t: Tensor, s: Tensor):\n  ";
  EXPECT_NE(problem(head + "return e\n").find("a tuple of 2 tensors"), std::string::npos);
  EXPECT_NE(problem(head + "return e, n, n\n").find("3 values"), std::string::npos);
  EXPECT_NE(problem(head + "return n, e\n").find("as edges, the card says 2x3x3x2"),
            std::string::npos);
  EXPECT_NE(problem("def forward(self, e: Tensor, t: Tensor, s: Tensor):\n  return e\n")
                .find("edges, nodes, the time, scale"),
            std::string::npos);
  EXPECT_NE(problem(kForward, R"(, "layout": "channels-last")").find("layout"), std::string::npos);
  EXPECT_NE(problem(kForward, R"(, "extra_channels": 2)").find("sample_shape"), std::string::npos);
}

}  // namespace
}  // namespace bespoke
