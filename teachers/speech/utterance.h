#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace bespoke {

// What utterances are put together from: one digit, spoken once. Files are called
// DIGIT_SPEAKER_NUMBER.wav, as the Free Spoken Digit Dataset has them.
struct Recording {
  int64_t digit;
  std::string speaker;
  int64_t number;       // which of the speaker's recordings of the digit
  torch::Tensor audio;  // float32 [length]
};

// All recordings of a folder, a .zip or a .safetensors as written below, in the order of their
// names. Bad input: none there, a rate other than kSpeechRate, or a broken file. Stereo is mixed
// down.
std::vector<Recording> read_recordings(const std::filesystem::path& path);

// As 16-bit numbers in one .safetensors, a tensor for each by its file's name: for machines that
// have no libzip.
void write_recordings(const std::filesystem::path& path, const std::vector<Recording>& recordings);

constexpr int kSpeechRate = 8000;            // Hz
constexpr int64_t kUtteranceLength = 20480;  // 2.56 s, padded with silence
constexpr int64_t kLongestRecording = 6000;  // 0.75 s: longer ones are left out
constexpr int64_t kClipLength = 6400;        // of one digit alone, padded with silence
constexpr double kSpeechLevel = 0.1;         // root mean square of what is spoken

const std::vector<std::string>& digit_words();  // "zero" ... "nine"

// Training knows the first recordings of most speakers. The others are kept for testing: the last
// fifth of these speakers', and all of the speakers who are left out altogether.
enum class SpeechSplit { train, test, unseen };

// Digits said one after another by one speaker, one of them to be filled in.
struct Utterance {
  torch::Tensor audio;  // float32 [kUtteranceLength]
  std::string speaker, text;
  int64_t span_begin = 0, span_end = 0;  // of the digit to be filled in, in samples
  int64_t said = 0;                      // that digit
};

// Who said what, by split.
class Speech {
 public:
  Speech(std::vector<Recording> recordings, const std::vector<std::string>& unseen);

  // Three to five digits. Utterance number `index` of a seed: the same whatever was drawn before.
  Utterance draw(SpeechSplit split, uint64_t seed, uint64_t index) const;

  // The recordings of a split, at the level they have in utterances.
  std::vector<Recording> recordings(SpeechSplit split) const;
  std::vector<std::string> speakers() const;  // all, by name
  int64_t left_out() const { return left_out_; }

 private:
  SpeechSplit split_of(const Recording& recording) const;

  std::vector<Recording> recordings_;
  std::map<std::string, int64_t> last_trained_;  // number of a speaker's last training recording
  std::vector<std::string> unseen_;
  int64_t left_out_ = 0;
  std::map<SpeechSplit, std::map<std::string, std::vector<size_t>>> by_speaker_;
};

// One digit alone, as the span of an utterance would have it: float32 [kClipLength].
torch::Tensor clip_of(const Recording& recording);

}  // namespace bespoke
