// The utterances that a speech model learns from, of recordings that are made up.

#include "teachers/speech/utterance.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <string>

#include "../temporary_folder.h"
#include "bespoke/base/error.h"
#include "bespoke/io/wav.h"
#include "bespoke/model/vocabulary.h"

namespace bespoke {
namespace {

using testing::TemporaryFolder;

// A sound of its own for every recording, so that what is in an utterance can be told.
std::vector<Recording> made_up_recordings() {
  std::vector<Recording> recordings;
  torch::manual_seed(1);
  for (const std::string speaker : {"ann", "bob", "cas"}) {
    for (int64_t digit = 0; digit < 10; ++digit) {
      for (int64_t number = 0; number < 10; ++number) {
        recordings.push_back({digit, speaker, number, 0.01 * torch::randn({2000 + 300 * number})});
      }
    }
  }
  return recordings;
}

TEST(Utterance, DependsOnItsSeedAndNumberAlone) {
  const Speech speech(made_up_recordings(), {"cas"});
  const Utterance first = speech.draw(SpeechSplit::train, 3, 7);
  speech.draw(SpeechSplit::train, 3, 8);
  const Utterance again = speech.draw(SpeechSplit::train, 3, 7);
  EXPECT_EQ(first.text, again.text);
  EXPECT_TRUE(torch::equal(first.audio, again.audio));
  std::set<std::string> texts;
  for (uint64_t i = 0; i < 100; ++i) texts.insert(speech.draw(SpeechSplit::train, 3, i).text);
  EXPECT_GT(texts.size(), 90U);
}

TEST(Utterance, IsThreeToFiveDigitsOneOfThemToFill) {
  const Speech speech(made_up_recordings(), {});
  std::set<size_t> counts;
  for (uint64_t i = 0; i < 200; ++i) {
    const Utterance one = speech.draw(SpeechSplit::train, 1, i);
    const auto words = caption_words(one.text);
    counts.insert(words.size());
    EXPECT_EQ(one.audio.size(0), kUtteranceLength);
    EXPECT_LE(one.audio.abs().max().item<double>(), 1);
    EXPECT_GE(one.span_begin, 0);
    EXPECT_LE(one.span_end, kUtteranceLength);
    EXPECT_GE(one.span_end - one.span_begin, 2000);
    EXPECT_LE(one.span_end - one.span_begin, kClipLength);
    const std::string said = digit_words()[static_cast<size_t>(one.said)];
    EXPECT_NE(std::find(words.begin(), words.end(), said), words.end()) << one.text;
    // The span begins and ends in a pause.
    EXPECT_EQ(one.audio[one.span_begin].item<float>(), 0);
    EXPECT_EQ(one.audio[one.span_end - 1].item<float>(), 0);
  }
  EXPECT_EQ(counts, (std::set<size_t>{3, 4, 5}));
}

TEST(Utterance, KeepsLaterRecordingsAndSpeakersForTesting) {
  const Speech speech(made_up_recordings(), {"cas"});
  for (const auto& one : speech.recordings(SpeechSplit::train)) {
    EXPECT_LT(one.number, 8);
    EXPECT_NE(one.speaker, "cas");
    EXPECT_NEAR(one.audio.square().mean().sqrt().item<double>(), kSpeechLevel, 0.01);
  }
  for (const auto& one : speech.recordings(SpeechSplit::test)) {
    EXPECT_GE(one.number, 8);
    EXPECT_NE(one.speaker, "cas");
  }
  for (const auto& one : speech.recordings(SpeechSplit::unseen)) EXPECT_EQ(one.speaker, "cas");
  EXPECT_EQ(speech.draw(SpeechSplit::unseen, 1, 0).speaker, "cas");
  EXPECT_EQ(clip_of(speech.recordings(SpeechSplit::test).back()).size(0), kClipLength);
  EXPECT_THROW(Speech(made_up_recordings(), {"bop"}), Error);
}

TEST(Utterance, ReadsAFolderOfRecordings) {
  const TemporaryFolder folder;
  write_wav(folder.path() / "3_ann_1.wav", 0.1 * torch::randn({2, 800}), kSpeechRate);
  write_wav(folder.path() / "3_ann_0.wav", 0.1 * torch::randn({800}), kSpeechRate);
  write_wav(folder.path() / "notes.wav", 0.1 * torch::randn({800}), 44100);
  const auto recordings = read_recordings(folder.path());
  ASSERT_EQ(recordings.size(), 2u);
  EXPECT_EQ(recordings[0].number, 0);
  EXPECT_EQ(recordings[1].digit, 3);
  EXPECT_EQ(recordings[1].audio.sizes(), torch::IntArrayRef({800})) << "mixed down";
  write_recordings(folder.path() / "packed.safetensors", recordings);
  const auto packed = read_recordings(folder.path() / "packed.safetensors");
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed[0].speaker, "ann");
  EXPECT_TRUE(torch::equal(packed[0].audio, recordings[0].audio)) << "16 bits are all there was";
  write_wav(folder.path() / "4_ann_0.wav", 0.1 * torch::randn({800}), 44100);
  EXPECT_THROW(read_recordings(folder.path()), Error) << "another rate";
  const TemporaryFolder empty;
  EXPECT_THROW(read_recordings(empty.path()), Error);
}

}  // namespace
}  // namespace bespoke
