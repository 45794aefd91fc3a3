// bespoke-train progressive, on a model that a second of training makes.

#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/file.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/safetensors.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

class ProgressiveCommand : public CommandLine {
 protected:
  ProgressiveCommand() {
    torch::manual_seed(1);
    Dataset data;
    data.samples = torch::randint(256, {16, 3, 8, 8}, torch::kByte);
    data.labels = torch::arange(16, torch::kLong).remainder(2);
    data.classes = {"cat", "dog"};
    write_dataset(folder_ / "data.safetensors", data);
  }

  void train_teacher(const std::string& steps, const std::string& more = "") const {
    const Outcome trained =
        run("transformer --data data.safetensors --batch 16 --warmup 5 --device cpu --patch 4 "
            "--width 16 "
            "--heads 2 --depth 1 --learning-rate 5e-3 --steps " +
            steps + " -o teacher " + more);
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  torch::Tensor drawn(const std::string& model, const std::string& solver) const {
    const Outcome outcome = run("sample --model " + model + " --cond y=0,1 --count 32 --seed 9 " +
                                solver + " -o drawn");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_safetensors(folder_ / "drawn/samples.safetensors").tensors.at("samples");
  }

  nlohmann::json read(const std::string& file) const {
    return nlohmann::json::parse(read_file(folder_ / file));
  }

  const std::string distil_ =
      "progressive --model teacher/model.json --device cpu --threads 1 --batch 32 "
      "--learning-rate 2e-3 ";
};

TEST_F(ProgressiveCommand, MakesStudentsThatFollowTheirTeacherInFewerSteps) {
  train_teacher("200");
  const Outcome outcome =
      run(distil_ + "--from 8 --to 2 --data data.safetensors --flip --updates 100,200 -o out");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 steps: 200 updates of 32 examples, 19,200 forwards"),
            std::string::npos)
      << outcome.out;
  const torch::Tensor wanted = drawn("teacher/model.json", "--solver ddim --nfe 8");
  const auto error = [&](const torch::Tensor& samples) {
    return (samples - wanted).square().mean().item<double>();
  };
  const double before = error(drawn("teacher/model.json", "--solver ddim --nfe 2"));
  const std::string solver = "--solver out/steps-02/ddim.solver.json";
  const torch::Tensor by_file = drawn("out/steps-02/model.json", solver);
  EXPECT_LT(error(by_file), 0.5 * before);
  EXPECT_TRUE(
      by_file.allclose(drawn("out/steps-02/model.json", "--solver ddim --nfe 2"), 1e-4, 1e-5))
      << "the grid of the command line is the student's own";
  const auto card = read("out/steps-04/model.json");
  EXPECT_EQ(card["steps"], 4);
  EXPECT_FALSE(card["conditions"][0].contains("null")) << "it learnt no null class";
  const auto summary = read("out/steps-02/summary.json");
  EXPECT_EQ(summary["training_samples"], 16);
  EXPECT_EQ(summary["times"], nlohmann::json({0, 0.5, 1}));
  const Outcome compared =
      run("compare --model out/steps-02/model.json --cond y=0 --count 2 --nfe 2 --tolerance 1e-2 "
          "--solvers ddim");
  EXPECT_EQ(compared.code, 0) << compared.err;
  expect_failure("progressive --model out/steps-02/model.json --from 4 --to 2 -o x", 2,
                 "is a student for 2 steps; give --from 2");
}

TEST_F(ProgressiveCommand, GoesOnToTheSameBits) {
  train_teacher("20");
  const std::string work = distil_ + "--from 4 --to 1 --samples 64 --updates 40,300 ";
  ASSERT_EQ(run(work + "-o whole").code, 0);
  const Outcome broken = interrupt_when(
      "[ $(cat out/steps-01/log.jsonl 2>/dev/null | wc -l) -ge 1 ]", work + "-o out");
  ASSERT_EQ(broken.code, 130) << broken.err;
  EXPECT_NE(broken.err.find("of 300 of steps-01; continue with --resume"), std::string::npos)
      << broken.err;
  ASSERT_FALSE(is_file(folder_ / "out/steps-01/model.json"));
  expect_failure(work + "-o out", 2, "add --resume");
  ASSERT_EQ(run(work + "-o out --resume").code, 0);
  for (const std::string file : {"samples.safetensors", "steps-02/model.pt", "steps-01/model.pt"}) {
    EXPECT_EQ(read_file(folder_ / "whole" / file), read_file(folder_ / "out" / file)) << file;
  }
  const Outcome other = run(work + "-o out --resume --seed 3");
  EXPECT_EQ(other.code, 3);
  EXPECT_NE(other.err.find("was begun with seed = 0"), std::string::npos) << other.err;
}

TEST_F(ProgressiveCommand, PutsGuidanceIntoTheStudent) {
  train_teacher("200", "--class-dropout 0.3");
  const Outcome outcome = run(distil_ +
                              "--from 4 --to 2 --guidance 1 --samples 64 --updates 200 "
                              "--weight snr-plus-one -o out");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("32,000 forwards"), std::string::npos) << outcome.out;
  const torch::Tensor wanted = drawn("teacher/model.json", "--solver ddim --nfe 4 --guidance 1");
  const auto error = [&](const torch::Tensor& samples) {
    return (samples - wanted).square().mean().item<double>();
  };
  EXPECT_LT(error(drawn("out/steps-02/model.json", "--solver ddim --nfe 2")),
            0.7 * error(drawn("teacher/model.json", "--solver ddim --nfe 2 --guidance 1")));
  EXPECT_NE(read("out/steps-02/model.json")["source"].get<std::string>().find("guidance w = 1"),
            std::string::npos);
}

TEST_F(ProgressiveCommand, RefusesWhatCannotBeDistilled) {
  train_teacher("10");
  expect_failure(distil_ + "--from 12 --to 4 -o x", 2, "--from 12 is not --to 4 doubled");
  expect_failure(distil_ + "--updates 5,6,7 -o x", 2, "--updates has 3 numbers for 4 halvings");
  expect_failure(distil_ + "--flip -o x", 2, "--flip goes with --data");
  expect_failure(distil_ + "--guidance 0-2 -o x", 2, "give a number");
  expect_failure(distil_ + "--grid uniform-x -o x", 2, "uniform-t");
  expect_failure("progressive --model analytic:mixture -o x", 2, "has no weights to train");
  Dataset data;
  data.samples = torch::zeros({3, 3, 8, 8}, torch::kByte);
  data.labels = torch::arange(3, torch::kLong);
  data.classes = {"cat", "dog", "emu"};
  write_dataset(folder_ / "three.safetensors", data);
  expect_failure(distil_ + "--data three.safetensors -o x", 3, "has 3 classes");
  data.samples = torch::zeros({3, 1, 16});
  data.sample_rate = 8000;
  write_dataset(folder_ / "sounds.safetensors", data);
  const Outcome sounds = run(distil_ + "--data sounds.safetensors -o x");
  EXPECT_EQ(sounds.code, 3);
  EXPECT_NE(sounds.err.find("leave out --data to learn from the model's own samples"),
            std::string::npos)
      << sounds.err;
  EXPECT_FALSE(fs::exists(folder_ / "x")) << "what never began left a folder";
}

}  // namespace
}  // namespace bespoke
