#include "bespoke/measure/judge.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

using Verdicts = std::vector<std::optional<bool>>;

class JudgeTest : public ::testing::Test {
 protected:
  // A judge that sees class k where the first value of a sample is k.
  Judge judge(const std::vector<std::string>& classes, int64_t told_apart = 0) const {
    torch::jit::Module module("classifier");
    const auto count = told_apart > 0 ? told_apart : static_cast<int64_t>(classes.size());
    module.define("def forward(self, x):\n    return -(x[:, :1] - torch.arange(" +
                  std::to_string(count) + ").to(x)).abs()\n");
    module.save((folder_.path() / "network.pt").string());
    write_judge(folder_.path(), "network.pt", classes);
    return Judge(folder_.path(), torch::kCPU);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(JudgeTest, ReadsWhichClassAPromptNames) {
  const Judge place = judge({"at the top", "at the top left", "in the centre"});
  EXPECT_EQ(place.named_class("a key at the top"), 0);
  EXPECT_EQ(place.named_class("A key, at the top LEFT on blue"), 1) << "the longest";
  EXPECT_EQ(place.named_class("a key on blue"), std::nullopt);
  EXPECT_EQ(place.named_class("the top of a key"), std::nullopt) << "word for word, in order";
  EXPECT_EQ(place.named_class("a key in the centre at the top"), std::nullopt) << "two of them";
  const Judge thing = judge({"cat", "caterpillar"});
  EXPECT_EQ(thing.named_class("a caterpillar"), 1) << "words, not letters";
  EXPECT_EQ(thing.named_class("two cats"), std::nullopt);
}

TEST_F(JudgeTest, AllThatHaveAWordInItMustAgree) {
  const Judge thing = judge({"cat", "dog"});
  const Judge colour = judge({"blue", "red"});
  const Jury jury({thing, colour},
                  {"unused", "a cat on blue", "a cat on red", "a cow on red", "a cow"});
  const torch::Tensor samples = torch::tensor({{0.0}, {0.0}, {1.0}, {1.0}});
  EXPECT_EQ(jury.verdicts(samples, 1), (Verdicts{true, false, true, std::nullopt}));
}

TEST_F(JudgeTest, RefusesWhatItCannotJudge) {
  const auto refused = [](const std::function<void()>& work) { return testing::refusal(work); };
  EXPECT_NE(refused([&] {
              Jury({judge({"cat"})}, {"a dog", ""});
            }).find("no prompt names"),
            std::string::npos);
  EXPECT_NE(refused([&] {
              judge({"cat", "dog"}, 3).seen_classes(torch::zeros({1, 1}));
            }).find("tells 3 classes apart and names 2"),
            std::string::npos);
  EXPECT_NE(refused([&] { judge({"cat", "?"}); }).find("without a word"), std::string::npos);
  EXPECT_NE(refused([&] {
              Judge(folder_.path() / "nowhere", torch::kCPU);
            }).find("bespoke-train classifier"),
            std::string::npos);
  detail::write_file_atomically(folder_.path() / "classifier.json", "{\"format\": \"other\"}");
  EXPECT_NE(refused([&] { Judge(folder_.path(), torch::kCPU); }).find("classifier.json"),
            std::string::npos);
}

}  // namespace
}  // namespace bespoke
