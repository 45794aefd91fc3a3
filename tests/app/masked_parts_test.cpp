// Models on the command line whose samples are several tensors, of which only some numbers count.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bespoke/base/file.h"
#include "bespoke/io/safetensors.h"
#include "command_line.h"

namespace bespoke {
namespace {

using detail::write_file_atomically;
using nlohmann::json;

class MaskedParts : public CommandLine {
 protected:
  // Gaussian edges [6, 6, 1] and nodes [6, 2]; above the diagonal, where nothing counts, edges are
  // driven far away by a velocity that no solver follows.
  void SetUp() override {
    CommandLine::SetUp();
    torch::jit::Module module("graphs");
    module.define(R"(
def velocity(self, x, t):
    s = t.reshape([-1] + [1] * (x.dim() - 1))
    v = 0.25 * s * s + (1.0 - s) * (1.0 - s)
    return (0.25 * s / v - 1.0) * x / torch.clamp(1.0 - s, min=1e-3)
)");
    module.define(R"(
def forward(self, edges, nodes, t):
    above = torch.triu(torch.ones([6, 6]), 1).reshape([1, 6, 6, 1])
    far = above * (9.0 + 30.0 * torch.sin(20.0 * edges))
    return self.velocity(edges, t) + far, self.velocity(nodes, t)
)");
    module.save((folder_ / "weights.pt").string());
    write_safetensors(folder_ / "mask.safetensors",
                      {{{"mask", torch::tril(torch::ones({6, 6}))}}, {}});
    write_card("whole.json", json::object());
    write_card("masked.json", {{"error_mask", {{"edges", "mask.safetensors"}}}});
  }

  void write_card(const std::string& name, const json& changes) const {
    json card = {{"format", "torchscript"},
                 {"weights", "weights.pt"},
                 {"sample_shape", {{"edges", {6, 6, 1}}, {"nodes", {6, 2}}}},
                 {"value_range", {-2, 2}},
                 {"prediction", "velocity"},
                 {"schedule", {{"name", "fm-ot"}}},
                 {"time", {{"convention", "noise-to-data"}}}};
    card.update(changes);
    write_file_atomically(folder_ / name, card.dump());
  }

  Outcome succeed(const std::string& arguments) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
    return outcome;
  }

  double psnr(const std::string& card) const {
    const Outcome outcome = succeed("compare --model " + card +
                                    " --solvers midpoint --nfe 8 --count 8 --tolerance 1e-4 "
                                    "--no-cache --format json");
    return json::parse(outcome.out)[0]["psnr_db"].get<double>();
  }

  double validation_psnr(const std::string& card, const std::string& folder) const {
    succeed("distill --model " + card + " --nfe 4 --samples 16 --tolerance 1e-3 --method fit -o " +
            folder);
    const auto path = folder_ / folder / "nfe-04/summary.json";
    return json::parse(detail::read_text_file(path))["validation_psnr"].get<double>();
  }
};

TEST_F(MaskedParts, AreDrawnApart) {
  succeed("sample --model masked.json --solver midpoint --nfe 8 --count 3 -o out");
  const auto file = read_safetensors(folder_ / "out/samples.safetensors");
  EXPECT_EQ(file.tensors.at("nodes").sizes(), torch::IntArrayRef({3, 6, 2}));
  EXPECT_EQ(file.tensors.at("edges").sizes(), torch::IntArrayRef({3, 6, 6, 1}));
}

TEST_F(MaskedParts, AreComparedByWhatCounts) {
  EXPECT_GT(psnr("masked.json"), psnr("whole.json") + 10);
}

TEST_F(MaskedParts, AreDistilledForWhatCounts) {
  EXPECT_GT(validation_psnr("masked.json", "masked"), validation_psnr("whole.json", "whole") + 10);
}

TEST_F(MaskedParts, AreLookedAtWhereTheyCount) {
  const std::string pairs = "pairs --count 4 --validation 2 --tolerance 1e-2 ";
  const std::string outside = "of their values outside value_range";
  EXPECT_NE(succeed(pairs + "--model whole.json -o whole").err.find(outside), std::string::npos);
  EXPECT_EQ(succeed(pairs + "--model masked.json -o masked").err.find(outside), std::string::npos);
}

TEST_F(MaskedParts, AreChecked) { succeed("check masked.json"); }

}  // namespace
}  // namespace bespoke
