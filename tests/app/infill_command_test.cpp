// Speech with gaps: training what fills them, bespoke infill, and --utterances elsewhere.

#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/file.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/io/wav.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

constexpr int kRate = 8000;
constexpr int64_t kWindow = 1280;  // 0.16 s

torch::Tensor voice(int64_t length) {
  return 0.3 * (0.2 * torch::arange(length, torch::kFloat)).sin() + 0.02 * torch::randn({length});
}

class InfillCommand : public CommandLine {
 protected:
  InfillCommand() {
    torch::manual_seed(1);
    Dataset data;
    data.samples =
        torch::stack({voice(kWindow), voice(kWindow), voice(kWindow), voice(kWindow)}).unsqueeze(1);
    data.labels = torch::zeros({4}, torch::kLong);
    data.classes = {"ann"};
    data.sample_rate = kRate;
    write_dataset(folder_ / "data.safetensors", data);
    write_file_atomically(folder_ / "data.txt", "one two\ntwo three one\nthree\none\n");
    write_wav(folder_ / "in.wav", voice(4000), kRate);
  }

  void train_codec() const {
    const Outcome codec =
        run("audio-codec --data data.safetensors --test data.safetensors "
            "--channels 4 --strides 4,5 --latent-channels 3 --steps 12 --batch 4 --warmup 2 "
            "--device cpu -o codec");
    ASSERT_EQ(codec.code, 0) << codec.err;
    EXPECT_NE(codec.out.find("latents of 3x64"), std::string::npos) << codec.out;
    EXPECT_NE(codec.out.find("SNR "), std::string::npos) << codec.out;
  }

  void train_model() const {
    train_codec();
    const Outcome trained = run(train_ + "--infill --steps 12 -o model");
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  // Two sounds with gaps, the second of another rate and stereo.
  void write_utterances() const {
    make_folders(folder_ / "gaps");
    write_wav(folder_ / "gaps/1.wav", voice(1200), kRate);
    write_wav(folder_ / "gaps/2.wav", voice(2 * 3000).reshape({2, 3000}), 16000);
    write_file_atomically(
        folder_ / "gaps/manifest.jsonl",
        R"({"file": "1.wav", "text": "one two", "span": [0.05, 0.08], "said": "two"})"
        "\n"
        R"({"file": "2.wav", "text": "three", "span": [0.1, 0.13], "said": "three", "speaker": "x"})"
        "\n");
  }

  const std::string train_ =
      "transformer --data data.safetensors --captions data.txt --latents codec --batch 4 --warmup "
      "2 "
      "--device cpu --patch 4 --width 16 --heads 2 --depth 1 ";
  const std::string model_ = "infill --model model/model.json ";
  const std::string infill_ = model_ + "--solver euler --nfe 2 ";
};

TEST_F(InfillCommand, FillsTheSpanAndKeepsTheRest) {
  train_model();
  EXPECT_TRUE(is_file(folder_ / "codec/original-0.wav"));
  EXPECT_TRUE(is_file(folder_ / "codec/reconstructions.png"));
  EXPECT_TRUE(is_file(folder_ / "model/samples-000012.png"));
  const Outcome filled = run(infill_ +
                             "--audio in.wav --span 0.2-0.25 --text 'two one' --guidance 1 "
                             "--spectrogram out.png -o out.wav");
  ASSERT_EQ(filled.code, 0) << filled.err;
  EXPECT_EQ(filled.err, "") << "nothing was done to the sound";
  const WavFile in = read_wav(folder_ / "in.wav"), out = read_wav(folder_ / "out.wav");
  ASSERT_EQ(out.audio.sizes(), in.audio.sizes());
  const int64_t fade = 80, begin = 1600, end = 2000;
  EXPECT_TRUE(
      torch::equal(out.audio.slice(1, 0, begin - fade), in.audio.slice(1, 0, begin - fade)));
  EXPECT_TRUE(torch::equal(out.audio.slice(1, end + fade), in.audio.slice(1, end + fade)));
  EXPECT_FALSE(torch::equal(out.audio.slice(1, begin, end), in.audio.slice(1, begin, end)));
  EXPECT_EQ(read_png(folder_ / "out.png").image.size(0), 3);

  // What the span had does not matter, the seed and the text do.
  WavFile other = in;
  other.audio.slice(1, begin, end) = 0.5 * torch::randn({1, end - begin});
  write_wav(folder_ / "other.wav", other.audio, kRate);
  const std::string again = "--span 0.2-0.25 --guidance 1 ";
  ASSERT_EQ(run(infill_ + again + "--audio other.wav --text 'two one' -o other-out.wav").code, 0);
  EXPECT_TRUE(torch::equal(read_wav(folder_ / "other-out.wav").audio, out.audio));
  for (const std::string& change :
       {infill_ + "--seed 1 --text 'two one' ", infill_ + "--text three ",
        model_ + "--solver reference --tolerance 1e-2 --text 'two one' "}) {
    ASSERT_EQ(run(change + again + "--audio in.wav -o changed.wav").code, 0) << change;
    EXPECT_FALSE(torch::equal(read_wav(folder_ / "changed.wav").audio, out.audio)) << change;
  }
}

TEST_F(InfillCommand, TakesOtherRatesChannelsAndLengths) {
  train_model();
  const std::string filled = infill_ + "--text one -o out.wav ";
  write_wav(folder_ / "stereo.wav", voice(44100).reshape({2, 22050}), 44100);
  const Outcome stereo = run(filled + "--audio stereo.wav --span 0.2-0.25");
  ASSERT_EQ(stereo.code, 0) << stereo.err;
  EXPECT_NE(stereo.err.find("stereo.wav has 2 channels: mixed down to one"), std::string::npos);
  EXPECT_NE(stereo.err.find("has 44100 Hz, the model 8000"), std::string::npos);
  const WavFile out = read_wav(folder_ / "out.wav");
  EXPECT_EQ(out.sample_rate, 44100);
  EXPECT_EQ(out.audio.size(1), 22050);
  write_wav(folder_ / "short.wav", voice(500), kRate);
  EXPECT_EQ(run(filled + "--audio short.wav --span 0.01-0.03").code, 0) << "less than a window";
  write_wav(folder_ / "long.wav", voice(60 * kRate), kRate);
  EXPECT_EQ(run(filled + "--audio long.wav --span 59.9-60").code, 0) << "to its end";
}

TEST_F(InfillCommand, RefusesBadInputInOneSentence) {
  train_model();
  const std::string in = infill_ + "--audio in.wav -o out.wav ";
  expect_failure(in + "--text one --span 0.4-0.6", 3,
                 "the span 0.4-0.6 s is not in the sound, which has 0.5 s");
  expect_failure(in + "--text one --span 0.1-0.4", 3, "the model fills less than 0.16 s at a time");
  expect_failure(in + "--text one --span 0.4-0.1", 2, "--span must rise from FROM to TO");
  expect_failure(in + "--text one --span 0.4", 2, "--span is FROM-TO in seconds");
  expect_failure(in + "--text 'one tow' --span 0.1-0.12", 2, "'tow' (did you mean 'two'?)");
  expect_failure(in + "--text 'one one one one' --span 0.1-0.12", 2, "the model reads 3");
  write_wav(folder_ / "silence.wav", torch::zeros({4000}), kRate);
  expect_failure(infill_ + "--audio silence.wav --text one --span 0.1-0.12 -o out.wav", 3,
                 "nothing is heard around the span");
  expect_failure(infill_ + "--audio none.wav --text one --span 0.1-0.12 -o out.wav", 3, "none.wav");
  expect_failure("infill --audio in.wav --text one --span 0.1-0.12 -o out.wav", 2,
                 "its card has no encoder");
  expect_failure("sample --utterances gaps -o out", 2, "--utterances is for models that fill gaps");
  expect_failure("transformer --data data.safetensors --infill --latents codec --device cpu -o x",
                 2, "--infill needs --latents");
  expect_failure("compare --sounds out --nfe 2", 2, "--sounds is for models of sounds");
}

TEST_F(InfillCommand, DistilsAndComparesOnUtterances) {
  train_model();
  write_utterances();
  const std::string model = "--model model/model.json --utterances gaps --guidance 1 ";
  ASSERT_EQ(run("pairs " + model + "--count 4 --validation 2 --tolerance 1e-2 -o pairs").code, 0);
  const Outcome distilled =
      run("distill " + model + "--nfe 2 --method fit --samples 8 --tolerance 1e-2 -o run");
  ASSERT_EQ(distilled.code, 0) << distilled.err;
  Dataset digits;
  digits.samples = torch::stack({voice(1100), voice(1100)}).unsqueeze(1);
  digits.labels = torch::arange(2, torch::kLong);
  digits.classes = {"two", "three"};
  digits.sample_rate = kRate;
  write_dataset(folder_ / "digits.safetensors", digits);
  ASSERT_EQ(run("classifier --data digits.safetensors --steps 4 --batch 2 "
                "--warmup 1 --device cpu -o judge")
                .code,
            0);
  const std::string compare = "compare " + model +
                              "--solvers euler,run/bns.solver.json --nfe 2 --tolerance 1e-2 "
                              "--no-cache --judge judge ";
  const Outcome compared = run(compare + "--report report.html --sounds sounds");
  ASSERT_EQ(compared.code, 0) << compared.err;
  for (const std::string part : {"2 samples", "in the filled spans", "SNR in dB of the latents",
                                 "SNR in dB of the waveform", "spectral flux at the joints in dB",
                                 "filled spans in which the right word is recognised"}) {
    EXPECT_NE(compared.out.find(part), std::string::npos) << part << "\n" << compared.out;
  }
  EXPECT_NE(compared.err.find("gaps: 1 sound was resampled to 8000 Hz"), std::string::npos);
  const std::string page = read_file(folder_ / "report.html");
  EXPECT_NE(page.find("Sample 1: one two, 0.05 to 0.08 s filled"), std::string::npos);
  EXPECT_NE(page.find("class=\"spectrogram\""), std::string::npos);
  for (const char* name : {"1-reference", "1-recording", "1-euler-2", "2-bns-2"}) {
    const auto path = folder_ / "sounds" / (std::string(name) + ".wav");
    ASSERT_TRUE(is_file(path)) << name;
    EXPECT_EQ(read_wav(path).audio.size(1), kWindow) << name;
  }
  const auto rows = nlohmann::json::parse(run(compare + "--format json").out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0]["snr_latent_db"].is_number());
  EXPECT_TRUE(rows[0]["snr_decoded_db"].is_number());
  EXPECT_NE(rows[0]["snr_latent_db"], rows[0]["snr_decoded_db"]);
  EXPECT_TRUE(rows[2]["joint_flux_db"].is_number()) << "the reference's";

  const Outcome twice = run("compare " + model + "--prompt one --nfe 2");
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("--utterances says what prompt is"), std::string::npos) << twice.err;
  expect_failure("distill --model model/model.json --nfe 2 -o other", 2,
                 "give --utterances FOLDER");
  write_file_atomically(folder_ / "gaps/manifest.jsonl",
                        "{\"file\": \"1.wav\", \"text\": \"one\"}\n");
  expect_failure("compare " + model + "--nfe 2", 3, "line 1: the key \"span\" is missing");
  write_file_atomically(folder_ / "gaps/manifest.jsonl",
                        "{\"file\": \"1.wav\", \"text\": \"four\", \"span\": [0.05, 0.08]}\n");
  expect_failure("compare " + model + "--nfe 2", 3, "gaps/1.wav: ");
  fs::remove(folder_ / "gaps/manifest.jsonl");
  expect_failure("compare " + model + "--nfe 2", 3, "gaps/manifest.jsonl is not there");
}

TEST_F(InfillCommand, LearnsLatentsOfSoundsWithoutGapsToo) {
  train_codec();
  ASSERT_EQ(run(train_ + "--steps 12 -o plain").code, 0);
  EXPECT_FALSE(is_file(folder_ / "plain/encoder.pt"));
  const Outcome sampled = run(
      "sample --model plain/model.json --prompt 'one two' --solver euler --nfe 2 --count 1 -o s");
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_EQ(read_wav(folder_ / "s/000000.wav").audio.size(1), kWindow) << "decoded";
  expect_failure(
      "infill --model plain/model.json --audio in.wav --text one --span 0.1-0.12 -o o.wav", 2,
      "its card has no encoder");
}

}  // namespace
}  // namespace bespoke
