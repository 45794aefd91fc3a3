// bespoke-train, on data small enough for a second of training.

#include <fmt/format.h>
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bespoke/base/file.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/measure/judge.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

class TrainCommand : public CommandLine {
 protected:
  TrainCommand() {
    Dataset data;
    torch::manual_seed(1);
    data.samples = torch::randint(256, {16, 3, 8, 8}, torch::kByte);
    data.labels = torch::arange(16, torch::kLong).remainder(2);
    data.classes = {"cat", "dog"};
    write_dataset(folder_ / "data.safetensors", data);
  }

  torch::Tensor samples_of(const std::string& name) const {
    return read_safetensors(folder_ / name / "samples.safetensors").tensors.at("samples");
  }

  const std::string data_ = "--data data.safetensors --batch 8 --warmup 5 --device cpu ";
  const std::string small_ = "transformer " + data_ + "--patch 4 --width 16 --heads 2 --depth 1 ";
  const std::string small_unet_ = "unet " + data_ + "--channels 8 --multipliers 1,2 --blocks 1 ";
};

TEST_F(TrainCommand, WritesAModelThatOtherCommandsTake) {
  for (const std::string& network : {small_, small_unet_ + "--schedule vp --prediction noise",
                                     small_ + "--schedule edm --prediction edm"}) {
    const std::string output = "run" + std::to_string(network.size());
    const Outcome trained = run(network + " --steps 30 --name tiny -o " + output);
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_NE(trained.out.find("16 images of 3x8x8 in 2 classes"), std::string::npos);
    const Outcome sampled = run("sample --model " + output +
                                "/model.json --cond y=0,1 --guidance 1 --solver euler --nfe 2 "
                                "--count 2 -o samples-" +
                                output);
    EXPECT_EQ(sampled.code, 0) << sampled.err;
  }
}

TEST_F(TrainCommand, LearnsCaptionsAndDrawsByPrompts) {
  std::string captions;
  for (int i = 0; i < 16; ++i) captions += i % 2 == 0 ? "A cat, on white\n" : "two small dogs\n";
  write_file_atomically(folder_ / "captions.txt", captions);
  const Outcome trained = run(small_ + "--steps 20 --captions captions.txt -o run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("captions of up to 4 words, 7 different ones"), std::string::npos)
      << trained.out;
  EXPECT_TRUE(is_file(folder_ / "run/samples-000020.png"));
  const std::string sample = "sample --model run/model.json --solver euler --nfe 2 --count 3 ";
  ASSERT_EQ(run(sample + "--prompt 'two cat on white' --guidance 2 -o one").code, 0);
  ASSERT_EQ(run(sample + "--cond prompt='two cat on white' --guidance 2 -o same").code, 0);
  write_file_atomically(folder_ / "prompts.txt", "two cat on white\n\na dogs\n");
  ASSERT_EQ(run(sample + "--prompts prompts.txt --guidance 2 -o several").code, 0);
  const std::string pairs =
      "pairs --model run/model.json --count 2 --validation 2 --tolerance 1e-2 ";
  ASSERT_EQ(run(pairs + "--prompts prompts.txt -o pairs").code, 0);
  write_file_atomically(folder_ / "prompts.txt", "a cat\n");
  EXPECT_EQ(run(pairs + "--prompts prompts.txt -o pairs").code, 3) << "other prompts";
  write_file_atomically(folder_ / "prompts.txt", "two cat on white\n\na dogs\n");
  const auto one = samples_of("one");
  EXPECT_TRUE(torch::equal(one, samples_of("same")));
  EXPECT_TRUE(torch::equal(one[0], samples_of("several")[0]));
  EXPECT_FALSE(torch::equal(one[1], samples_of("several")[1])) << "the second prompt";
  EXPECT_TRUE(torch::equal(one[2], samples_of("several")[2])) << "in turn";
  const PngText text = read_png(folder_ / "several/000001.png").text;
  EXPECT_EQ(text.back(), (std::pair<std::string, std::string>{"prompt", "a dogs"}));
  expect_failure(sample + "--prompt 'two cats' -o x", 2, "'cats' (did you mean 'cat'?)");
  expect_failure(sample + "--prompt 'a a a a a' -o x", 2, "has 5 words, the model reads 4");
  const std::string distill =
      "distill --model run/model.json --nfe 2 --method fit --samples 8 --tolerance 1e-2 ";
  expect_failure(distill + "-o x", 2, "give --prompts FILE");
  EXPECT_EQ(run(distill + "--prompts prompts.txt --guidance 1 -o fitted").code, 0);
  write_file_atomically(folder_ / "few.txt", "a cat\n");
  const Outcome few = run(small_ + "--steps 20 --captions few.txt -o other");
  EXPECT_EQ(few.code, 3);
  EXPECT_NE(few.err.find("1 captions for 16 samples"), std::string::npos) << few.err;
  expect_failure(small_unet_ + "--steps 20 --captions captions.txt -o other", 2,
                 "unexpected argument '--captions'");
}

TEST_F(TrainCommand, TeachesAJudgeOfPrompts) {
  std::string captions;
  for (int i = 0; i < 16; ++i) captions += i % 2 == 0 ? "a cat\n" : "two dogs\n";
  write_file_atomically(folder_ / "captions.txt", captions);
  ASSERT_EQ(run(small_ + "--steps 20 --captions captions.txt -o run").code, 0);
  ASSERT_EQ(run("classifier " + data_ + "--steps 20 -o judge").code, 0);
  write_judge(folder_ / "judge", "classifier.pt", {"cat", "dogs"});
  const std::string compare =
      "compare --model run/model.json --count 4 --nfe 2 --solvers euler --tolerance 1e-2 "
      "--no-cache --judge judge ";
  const Outcome judged = run(compare + "--prompts captions.txt --report out/report.html");
  ASSERT_EQ(judged.code, 0) << judged.err;
  EXPECT_NE(judged.out.find("show what their prompt says"), std::string::npos) << judged.out;
  EXPECT_NE(read_file(folder_ / "out/report.html").find("<small>two dogs</small>"),
            std::string::npos);
  const Outcome figures = run(compare + "--prompt 'two dogs' --format json");
  ASSERT_EQ(figures.code, 0) << figures.err;
  const auto rows = nlohmann::json::parse(figures.out);
  ASSERT_EQ(rows.size(), 2u) << "the reference too";
  EXPECT_LE(rows[0]["agreement"].get<double>(), 1);
  EXPECT_TRUE(rows[1]["agreement"].is_number());
  expect_failure(compare + "--prompt 'two' ", 3, "no prompt names one class");
  expect_failure("compare --count 4 --nfe 2 --judge judge", 2, "--judge is for models");
}

TEST_F(TrainCommand, LearnsLatentsOfAnAutoencoder) {
  const Outcome encoder = run("autoencoder " + data_ +
                              "--channels 8 --levels 1 "
                              "--latent-channels 2 --steps 20 --test data.safetensors -o codes");
  ASSERT_EQ(encoder.code, 0) << encoder.err;
  EXPECT_NE(encoder.out.find("latents of 2x4x4"), std::string::npos) << encoder.out;
  EXPECT_TRUE(is_file(folder_ / "codes/reconstructions.png"));
  const Outcome trained = run(small_ + "--latents codes --steps 20 -o run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome sampled =
      run("sample --model run/model.json --cond y=1 --solver euler --nfe 2 --count 2 -o samples");
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_EQ(samples_of("samples").sizes().vec(), (std::vector<int64_t>{2, 2, 4, 4}));
  EXPECT_EQ(read_png(folder_ / "samples/000000.png").image.size(1), 8) << "decoded";
  write_file_atomically(folder_ / "codes/encoder.pt", "no TorchScript");
  const Outcome broken = run(small_ + "--latents codes --steps 20 -o other");
  EXPECT_EQ(broken.code, 3);
  EXPECT_NE(broken.err.find("cannot load codes/encoder.pt"), std::string::npos) << broken.err;
  expect_failure(small_ + "--latents codes --flip --steps 20 -o other", 2, "--flip and --shift");
  const Outcome wrong = run(small_ + "--latents data.safetensors --steps 20 -o other");
  EXPECT_EQ(wrong.code, 3);
  EXPECT_NE(wrong.err.find("bespoke-train autoencoder"), std::string::npos) << wrong.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(TrainCommand, LearnsSoundsWhichReportsPlay) {
  Dataset sounds;
  sounds.samples = 0.5 * torch::sin(torch::arange(16 * 64).view({16, 1, 64}) * 0.3);
  sounds.labels = torch::zeros({16}, torch::kLong);
  sounds.classes = {"hum"};
  sounds.sample_rate = 8000;
  write_dataset(folder_ / "sounds.safetensors", sounds);
  const Outcome trained = run(
      "transformer --data sounds.safetensors --patch 8 --width 16 --heads 2 --depth 1 --steps 20 "
      "--warmup 2 --batch 8 --device cpu -o run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  expect_failure(
      "transformer --data sounds.safetensors --patch 8 --flip --steps 20 --warmup 2 -o flip", 2,
      "for images");
  EXPECT_NE(trained.out.find("16 sounds of 1x64 in 1 class\n"), std::string::npos) << trained.out;
  const Outcome compared =
      run("compare --model run/model.json --count 3 --nfe 2 --solvers euler,midpoint "
          "--report report.html");
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_TRUE(is_file(folder_ / "run/samples-000020-class0.wav"));
  EXPECT_NE(read_file(folder_ / "report.html").find("<audio"), std::string::npos);
}

// At these steps, whenever the log has its lines.
TEST_F(TrainCommand, ShowsSamplesOnTheWay) {
  ASSERT_EQ(run(small_ + "--steps 100 --grid-every 30 -o run").code, 0);
  for (const char* step : {"30", "60", "90"}) {
    EXPECT_TRUE(is_file(folder_ / fmt::format("run/samples-0000{}.png", step))) << step;
  }
  EXPECT_FALSE(is_file(folder_ / "run/samples-000050.png"));
  EXPECT_TRUE(is_file(folder_ / "run/samples-000100.png"));
  EXPECT_TRUE(is_file(folder_ / "run/checkpoint.safetensors"));
}

TEST_F(TrainCommand, ContinuesOnlyWhenAsked) {
  ASSERT_EQ(run(small_ + "--steps 10 -o run").code, 0);
  expect_failure(small_ + "--steps 10 -o run", 2, "add --resume");
  {
    const FolderLock other(folder_ / "run");
    const Outcome second = run(small_ + "--steps 10 -o run --resume");
    EXPECT_EQ(second.code, 3);
    EXPECT_NE(second.err.find("another run is writing here"), std::string::npos) << second.err;
  }
  EXPECT_EQ(run(small_ + "--steps 10 -o run --resume").code, 0);
  const Outcome other = run(small_ + "--steps 20 -o run --resume");
  EXPECT_EQ(other.code, 3);
  EXPECT_NE(other.err.find("was begun with steps = 10"), std::string::npos) << other.err;
}

TEST_F(TrainCommand, DoesNotContinueOnDataOfOtherClasses) {
  ASSERT_EQ(run(small_ + "--steps 10 -o run").code, 0);
  Dataset data;
  data.samples = torch::zeros({3, 3, 8, 8}, torch::kByte);
  data.labels = torch::arange(3, torch::kLong);
  data.classes = {"cat", "dog", "emu"};
  write_dataset(folder_ / "data.safetensors", data);
  const Outcome outcome = run(small_ + "--steps 10 -o run --resume");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("has the data changed?"), std::string::npos) << outcome.err;
}

TEST_F(TrainCommand, TestsClassifiersOnImagesThatAreNotSquare) {
  Dataset data;
  data.samples = torch::randint(256, {8, 1, 8, 16}, torch::kByte);
  data.labels = torch::arange(8, torch::kLong).remainder(2);
  data.classes = {"cat", "dog"};
  write_dataset(folder_ / "wide.safetensors", data);
  const Outcome outcome =
      run("classifier --data wide.safetensors --steps 4 --warmup 1 --batch 4 "
          "--test wide.safetensors --device cpu -o wide");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(TrainCommand, MakesFeatures) {
  const Outcome outcome =
      run("classifier --data data.safetensors --steps 20 --warmup 2 --batch 8 "
          "--test data.safetensors --device cpu -o features");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("on 16 examples"), std::string::npos) << outcome.out;
  EXPECT_TRUE(is_file(folder_ / "features/features.pt"));
}

TEST_F(TrainCommand, RefusesWhatCannotBeTrainedOn) {
  make_folders(folder_ / "empty");
  expect_failure("transformer --data empty -o run", 3, "empty");
  expect_failure("transformer --data nowhere -o run", 3, "nowhere");
  expect_failure(small_ + "--steps 5 -o run", 2, "--warmup 5");
  expect_failure(small_ + "--schedule vpp --steps 30 -o run", 2, "vp");
  expect_failure(small_ + "--test data.safetensors --steps 30 -o run", 2, "--test");
  expect_failure(small_ + "--network unet --steps 30 -o run", 2, "the network is the command");
  const Outcome divided =
      run("transformer --data data.safetensors --patch 3 --steps 30 --warmup 5 -o run");
  EXPECT_EQ(divided.code, 3);
  EXPECT_NE(divided.err.find("patches of 3"), std::string::npos) << divided.err;
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "a run that never began left a folder";
}

}  // namespace
}  // namespace bespoke
