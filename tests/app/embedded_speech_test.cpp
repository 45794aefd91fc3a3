// The embedded model that fills gaps in speech, and the sounds that come with it.

#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bespoke/base/file.h"
#include "bespoke/io/wav.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

const std::filesystem::path& models() {
  static const std::filesystem::path folder = BESPOKE_SOURCE_DIR "/models";
  return folder;
}

class EmbeddedSpeech : public CommandLine {
 protected:
  EmbeddedSpeech() {
    std::istringstream manifest(read_file(models() / "speech-gaps/manifest.jsonl"));
    std::string line;
    std::getline(manifest, line);
    first_ = nlohmann::json::parse(line);
    sound_ = read_wav(models() / "speech-gaps" / first_["file"].get<std::string>());
    write_wav(folder_ / "in.wav", sound_.audio, sound_.sample_rate);
  }

  std::string span() const {
    return std::to_string(first_["span"][0].get<double>()) + "-" +
           std::to_string(first_["span"][1].get<double>());
  }

  // Where the gap of in.wav begins and ends, in samples, and what is blended around it.
  int64_t edge(int which) const {
    return std::llround(first_["span"][which].get<double>() * sound_.sample_rate);
  }

  Outcome fill(const std::string& file, const std::string& span, const std::string& text,
               const std::string& more = "") const {
    return run("infill --model speech --guidance 1 --solver midpoint --nfe 8 --audio " + file +
               " --span " + span + " --text '" + text + "' -o out.wav " + more);
  }

  void expect_refusal(const std::string& file, const std::string& span, const std::string& text,
                      int code, const std::string& expected) const {
    expect_failure("infill --model speech --solver euler --nfe 2 --audio " + file + " --span " +
                       span + " --text '" + text + "' -o out.wav",
                   code, expected);
    EXPECT_FALSE(is_file(folder_ / "out.wav")) << expected;
  }

  const std::string gaps_ = " --utterances '" + (models() / "speech-gaps").string() + "' ";
  nlohmann::json first_;
  WavFile sound_;
};

TEST_F(EmbeddedSpeech, HasAtMostEightMegabytesWithItsCodec) {
  uintmax_t bytes = 0;
  for (const std::string part : {"speech.pt", "speech-encoder.pt", "speech-decoder.pt"}) {
    bytes += std::filesystem::file_size(models() / part);
  }
  EXPECT_LE(bytes, 8'000'000u);
}

TEST_F(EmbeddedSpeech, IsWhatItsCardSays) {
  const Outcome outcome = run("check speech --count 4");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("The card fits"), std::string::npos) << outcome.out;
}

TEST_F(EmbeddedSpeech, SpeaksInTheGapAndLeavesTheRest) {
  const std::string text = first_["text"];
  const Outcome filled = fill("in.wav", span(), text, "--spectrogram out.png");
  ASSERT_EQ(filled.code, 0) << filled.err;
  EXPECT_TRUE(is_file(folder_ / "out.png"));
  const torch::Tensor in = sound_.audio[0], out = read_wav(folder_ / "out.wav").audio[0];
  ASSERT_EQ(out.size(0), in.size(0));
  const int64_t fade = sound_.sample_rate / 100, begin = edge(0), end = edge(1);
  EXPECT_TRUE(torch::equal(out.slice(0, 0, begin - fade), in.slice(0, 0, begin - fade)));
  EXPECT_TRUE(torch::equal(out.slice(0, end + fade), in.slice(0, end + fade)));
  // About as loud as what was said there, and not the same: nothing of it reaches the model.
  const double loudness = out.slice(0, begin, end).square().mean().sqrt().item<double>() /
                          in.slice(0, begin, end).square().mean().sqrt().item<double>();
  EXPECT_GT(loudness, 0.2);
  EXPECT_LT(loudness, 5);
  EXPECT_FALSE(torch::equal(out.slice(0, begin, end), in.slice(0, begin, end)));
}

TEST_F(EmbeddedSpeech, TakesSoundsOfAnyRateAndLength) {
  write_wav(folder_ / "stereo.wav", torch::cat({sound_.audio, sound_.audio}), 44100);
  const Outcome stereo = fill("stereo.wav", "0.1-0.2", "one two");
  ASSERT_EQ(stereo.code, 0) << stereo.err;
  EXPECT_NE(stereo.err.find("2 channels: mixed down to one"), std::string::npos) << stereo.err;
  EXPECT_NE(stereo.err.find("has 44100 Hz, the model 8000"), std::string::npos) << stereo.err;

  const int64_t second = sound_.sample_rate;
  write_wav(folder_ / "second.wav", sound_.audio.slice(1, 0, second), sound_.sample_rate);
  ASSERT_EQ(fill("second.wav", "0.5-0.8", "one").code, 0);
  EXPECT_EQ(read_wav(folder_ / "out.wav").audio.size(1), second);

  const torch::Tensor hour = sound_.audio.repeat({1, 3600 * second / sound_.audio.size(1) + 1});
  write_wav(folder_ / "hour.wav", hour, sound_.sample_rate);
  ASSERT_EQ(fill("hour.wav", "3000-3000.5", "one two three").code, 0);
  const torch::Tensor filled = read_wav(folder_ / "out.wav").audio;
  EXPECT_TRUE(torch::equal(filled.slice(1, 0, 2999 * second), hour.slice(1, 0, 2999 * second)));
  EXPECT_TRUE(torch::equal(filled.slice(1, 3001 * second), hour.slice(1, 3001 * second)));
}

TEST_F(EmbeddedSpeech, RefusesWhatItCannotFill) {
  expect_refusal("in.wav", "9-9.5", "one", 3, "is not in the sound");
  expect_refusal("in.wav", "0-2.56", "one", 3, "the model fills less than 2.56 s at a time");
  expect_refusal("in.wav", "0.5-0.9", "one eleven", 2, "'eleven'");
  expect_refusal("in.wav", "0.5-0.9", "one two three four five six", 2, "the model reads 5");
  write_wav(folder_ / "silence.wav", torch::zeros({20000}), 8000);
  expect_refusal("silence.wav", "0.5-0.9", "one", 3, "nothing is heard around the span");
  std::string fast = read_file(folder_ / "in.wav");
  fast.replace(24, 4, "\xff\xff\xff\x7f");  // 2 GHz
  write_file_atomically(folder_ / "fast.wav", fast);
  expect_refusal("fast.wav", "0-0.000001", "one", 3, "sounds have 100 to 1000000");
  write_file_atomically(folder_ / "text.wav", "no sound at all");
  expect_refusal("text.wav", "0.5-0.9", "one", 3, "not a sound file");
}

TEST_F(EmbeddedSpeech, IsDistilledAndComparedOnItsGaps) {
  const std::string model = "--model speech --guidance 1" + gaps_;
  const Outcome distilled =
      run("distill " + model + "--nfe 4 --method fit --samples 8 --tolerance 1e-2 -o run");
  ASSERT_EQ(distilled.code, 0) << distilled.err;
  const Outcome compared =
      run("compare " + model +
          "--count 4 --tolerance 1e-2 --nfe 4 "
          "--solvers midpoint,run/bns.solver.json --format json --report report.html");
  ASSERT_EQ(compared.code, 0) << compared.err;
  const auto rows = nlohmann::json::parse(compared.out);
  EXPECT_GT(rows[1]["snr_latent_db"].get<double>(), rows[0]["snr_latent_db"].get<double>() + 3);
  EXPECT_NE(read_file(folder_ / "report.html").find("<audio"), std::string::npos);
  const Outcome drawn = run("sample " + model + "--solver euler --nfe 2 --count 1 -o samples");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(read_wav(folder_ / "samples/000000.wav").sample_rate, 8000);
}

}  // namespace
}  // namespace bespoke
