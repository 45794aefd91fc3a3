// Puts together the utterances that the speech model learns to fill gaps in.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/progress.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/wav.h"
#include "teachers/speech/utterance.h"

namespace bespoke {
namespace {

struct DigitOptions {
  std::string recordings, pack;
  int64_t count = 20000, test = 256;
  std::vector<std::string> unseen = {"theo"};
  int64_t seed = 1;
  std::string output;
};

double seconds(int64_t samples) { return static_cast<double>(samples) / kSpeechRate; }

// NAME.safetensors, of speakers as classes, and NAME.txt, what they say.
void write_utterances(const Speech& speech, const DigitOptions& options, SpeechSplit split,
                      int64_t count, const std::string& name) {
  Progress progress("putting together " + name);
  Dataset data;
  data.samples = torch::empty({count, 1, kUtteranceLength});
  data.sample_rate = kSpeechRate;
  data.classes = speech.speakers();
  std::vector<int64_t> labels;
  std::string texts;
  for (int64_t i = 0; i < count; ++i) {
    const Utterance utterance =
        speech.draw(split, static_cast<uint64_t>(options.seed), static_cast<uint64_t>(i));
    data.samples[i][0].copy_(utterance.audio);
    const auto speaker = std::find(data.classes.begin(), data.classes.end(), utterance.speaker);
    labels.push_back(speaker - data.classes.begin());
    texts += utterance.text + "\n";
    progress.update(static_cast<double>(i + 1) / static_cast<double>(count));
  }
  data.labels = torch::tensor(labels, torch::kLong);
  const std::filesystem::path folder = options.output;
  write_dataset(folder / (name + ".safetensors"), data);
  detail::write_file_atomically(folder / (name + ".txt"), texts);
}

// A folder of WAVs and manifest.jsonl, which says of each what is spoken and what to fill in.
void write_gaps(const Speech& speech, const DigitOptions& options, SpeechSplit split,
                const std::string& name) {
  const auto folder = std::filesystem::path(options.output) / name;
  detail::make_folders(folder);
  std::string manifest;
  for (int64_t i = 0; i < options.test; ++i) {
    const Utterance utterance =
        speech.draw(split, static_cast<uint64_t>(options.seed), static_cast<uint64_t>(i));
    const std::string file = fmt::format("{:04}.wav", i);
    write_wav(folder / file, utterance.audio, kSpeechRate);
    const nlohmann::ordered_json line = {
        {"file", file},
        {"text", utterance.text},
        {"span", {seconds(utterance.span_begin), seconds(utterance.span_end)}},
        {"said", digit_words()[static_cast<size_t>(utterance.said)]},
        {"speaker", utterance.speaker}};
    manifest += line.dump() + "\n";
  }
  detail::write_file_atomically(folder / "manifest.jsonl", manifest);
}

// Single digits, for a recogniser.
void write_digits(const Speech& speech, const DigitOptions& options, SpeechSplit split,
                  const std::string& name) {
  const auto recordings = speech.recordings(split);
  Dataset data;
  data.sample_rate = kSpeechRate;
  data.classes = digit_words();
  std::vector<torch::Tensor> clips;
  std::vector<int64_t> labels;
  for (const auto& recording : recordings) {
    clips.push_back(clip_of(recording).unsqueeze(0));
    labels.push_back(recording.digit);
  }
  if (clips.empty()) return;
  data.samples = torch::stack(clips);
  data.labels = torch::tensor(labels, torch::kLong);
  write_dataset(std::filesystem::path(options.output) / (name + ".safetensors"), data);
}

void run(const DigitOptions& options) {
  const auto recordings = read_recordings(options.recordings);
  if (!options.pack.empty()) write_recordings(options.pack, recordings);
  if (options.output.empty()) return;
  const Speech speech(recordings, options.unseen);
  detail::make_folders(options.output);
  write_utterances(speech, options, SpeechSplit::train, options.count, "train");
  write_utterances(speech, options, SpeechSplit::test, options.test, "test");
  write_gaps(speech, options, SpeechSplit::train, "train");
  write_gaps(speech, options, SpeechSplit::test, "seen");
  if (!options.unseen.empty()) write_gaps(speech, options, SpeechSplit::unseen, "unseen");
  write_digits(speech, options, SpeechSplit::train, "digits");
  write_digits(speech, options, SpeechSplit::test, "digits-test");
  fmt::print("{} speakers, {} recordings left out: longer than {} s\nwrote {}\n",
             speech.speakers().size(), speech.left_out(), seconds(kLongestRecording),
             options.output);
}

}  // namespace
}  // namespace bespoke

int main(int argc, char** argv) {
  bespoke::DigitOptions options;
  CLI::App app(
      "Puts together utterances of three to five digits, 2.56 s each, from single recordings: "
      "train.safetensors and train.txt, test.* of recordings that training never uses, the folders "
      "train, seen and unseen of WAVs with gaps to fill, and single digits for a recogniser.");
  app.add_option("--recordings", options.recordings,
                 "folder or .zip of DIGIT_SPEAKER_NUMBER.wav, 8 kHz, or what --pack wrote")
      ->required();
  app.add_option("--pack", options.pack,
                 "write all recordings to this .safetensors, which needs no libzip to be read");
  app.add_option("--count", options.count, "training utterances")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--test", options.test, "test utterances, of each kind")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--unseen", options.unseen, "speakers who are kept out of training; none: \"\"")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("-o,--output", options.output, "folder; may be left out beside --pack");
  CLI11_PARSE(app, argc, argv);
  if (options.output.empty() && options.pack.empty()) {
    fmt::print(stderr, "spoken_digits: give -o FOLDER, --pack FILE or both\n");
    return 2;
  }
  const auto empty = std::remove(options.unseen.begin(), options.unseen.end(), "");
  options.unseen.erase(empty, options.unseen.end());
  try {
    bespoke::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "spoken_digits: {}\n", error.what());
    return 3;
  }
  return 0;
}
