#include "teachers/speech/utterance.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/io/wav.h"
#include "bespoke/io/zip.h"
#include "teachers/choices.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr uint32_t kSpeechStream = 0x73706368;
constexpr size_t kSpeechChoices = 32;  // of an utterance, at most
constexpr int64_t kFewest = 3, kMost = 5;
// Between digits, in samples: so that three of the longest always fit.
constexpr double kShortestGap = 160, kLongestGap = 1200;
constexpr int64_t kAround = 160;  // of the pause, at most, that a span takes on either side
constexpr int64_t kFade = 40;
constexpr double kPeak = 0.95;
constexpr double kPcmScale = 32768;

// "7_theo_31.wav"; false where a file is called otherwise.
bool parse_name(const std::string& path, Recording& recording) {
  const std::filesystem::path file(path);
  const auto parts = split(file.stem().string(), '_');
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() < 9 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (lower_case(file.extension().string()) != ".wav" || parts.size() != 3 || parts[1].empty() ||
      !is_number(parts[0]) || parts[0].size() != 1 || !is_number(parts[2])) {
    return false;
  }
  recording.digit = std::stoll(parts[0]);
  recording.speaker = parts[1];
  recording.number = std::stoll(parts[2]);
  return true;
}

torch::Tensor mono_speech(const WavFile& file, const std::string& source) {
  if (file.sample_rate != kSpeechRate) {
    throw bad_input("{} has {} Hz; digits are recordings of {} Hz", source, file.sample_rate,
                    kSpeechRate);
  }
  return file.audio.mean(0);
}

std::vector<Recording> read_archive(const std::filesystem::path& path) {
  const ZipArchive archive(path);
  std::vector<Recording> recordings;
  for (size_t i = 0; i < archive.names().size(); ++i) {
    Recording recording;
    if (!parse_name(archive.names()[i], recording)) continue;
    const std::string source = archive.describe(i);
    recording.audio = mono_speech(decode_wav(archive.read(i), source), source);
    recordings.push_back(recording);
  }
  return recordings;
}

std::vector<Recording> read_folder(const std::filesystem::path& path) {
  std::vector<Recording> recordings;
  for (const auto& name : list_files(path)) {
    Recording recording;
    if (!parse_name(name, recording)) continue;
    recording.audio = mono_speech(read_wav(path / name), (path / name).string());
    recordings.push_back(recording);
  }
  return recordings;
}

std::vector<Recording> read_packed(const std::filesystem::path& path) {
  std::vector<Recording> recordings;
  for (const auto& [name, audio] : read_safetensors(path).tensors) {
    Recording recording;
    if (!parse_name(name, recording) || audio.dim() != 1) continue;
    recording.audio = audio.to(torch::kFloat) / kPcmScale;
    recordings.push_back(recording);
  }
  return recordings;
}

// At the level of all speech, with ends that do not click.
torch::Tensor levelled(const torch::Tensor& audio) {
  const double power = audio.square().mean().item<double>();
  const double peak = audio.abs().max().item<double>();
  if (!(power > 0)) return torch::zeros_like(audio);
  torch::Tensor result = audio * std::min(kSpeechLevel / std::sqrt(power), kPeak / peak);
  const int64_t fade = std::min(kFade, result.size(0) / 2);
  const torch::Tensor rise = torch::linspace(0, 1, fade);
  result.slice(0, 0, fade).mul_(rise);
  result.slice(0, result.size(0) - fade).mul_(rise.flip(0));
  return result;
}

// Where each digit begins, after pauses; those that do not fit are left out.
struct Places {
  std::vector<int64_t> begins, ends;
  int64_t spare = 0;  // samples after the last
};

Places places_of(const std::vector<const Recording*>& parts, const std::vector<double>& gaps) {
  Places places;
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t length = parts[i]->audio.size(0);
    if (at + length > kUtteranceLength) break;
    places.begins.push_back(at);
    places.ends.push_back(at + length);
    at += length + static_cast<int64_t>(gaps[i]);
  }
  places.spare = kUtteranceLength - places.ends.back();
  return places;
}

}  // namespace

const std::vector<std::string>& digit_words() {
  static const std::vector<std::string> words = {"zero", "one", "two",   "three", "four",
                                                 "five", "six", "seven", "eight", "nine"};
  return words;
}

std::vector<Recording> read_recordings(const std::filesystem::path& path) {
  const std::string ending = lower_case(path.extension().string());
  std::vector<Recording> recordings = ending == ".zip"           ? read_archive(path)
                                      : ending == ".safetensors" ? read_packed(path)
                                                                 : read_folder(path);
  if (recordings.empty()) {
    throw bad_input("{} holds no recordings; their files are called DIGIT_SPEAKER_NUMBER.wav",
                    path.string());
  }
  const auto key = [](const Recording& r) { return std::tie(r.speaker, r.digit, r.number); };
  std::sort(recordings.begin(), recordings.end(),
            [&](const Recording& a, const Recording& b) { return key(a) < key(b); });
  return recordings;
}

void write_recordings(const std::filesystem::path& path, const std::vector<Recording>& recordings) {
  TensorFile file;
  for (const auto& recording : recordings) {
    const std::string name =
        fmt::format("{}_{}_{}.wav", recording.digit, recording.speaker, recording.number);
    file.tensors[name] =
        (recording.audio * kPcmScale).round().clamp(-kPcmScale, kPcmScale - 1).to(torch::kShort);
  }
  write_safetensors(path, file);
}

Speech::Speech(std::vector<Recording> recordings, const std::vector<std::string>& unseen)
    : unseen_(unseen) {
  std::map<std::string, int64_t> last;
  for (auto& recording : recordings) {
    last[recording.speaker] = std::max(last[recording.speaker], recording.number);
    if (recording.audio.size(0) > kLongestRecording || recording.audio.size(0) == 0) {
      ++left_out_;
      continue;
    }
    recording.audio = levelled(recording.audio);
    recordings_.push_back(std::move(recording));
  }
  for (const auto& speaker : unseen_) {
    if (last.count(speaker) > 0) continue;
    std::vector<std::string> names;
    for (const auto& entry : last) names.push_back(entry.first);
    throw Error(ErrorKind::usage, unknown_name("speaker", speaker, names));
  }
  for (const auto& [speaker, number] : last) last_trained_[speaker] = (number + 1) * 4 / 5 - 1;
  for (size_t i = 0; i < recordings_.size(); ++i) {
    by_speaker_[split_of(recordings_[i])][recordings_[i].speaker].push_back(i);
  }
}

SpeechSplit Speech::split_of(const Recording& recording) const {
  const bool unseen = std::find(unseen_.begin(), unseen_.end(), recording.speaker) != unseen_.end();
  if (unseen) return SpeechSplit::unseen;
  return recording.number > last_trained_.at(recording.speaker) ? SpeechSplit::test
                                                                : SpeechSplit::train;
}

Utterance Speech::draw(SpeechSplit split, uint64_t seed, uint64_t index) const {
  const auto found = by_speaker_.find(split);
  if (found == by_speaker_.end()) {
    throw bad_input("no recordings are left for one of training, testing and unseen speakers");
  }
  Choices choices(seed, index, kSpeechStream, kSpeechChoices);
  auto speaker = found->second.begin();
  std::advance(speaker, choices.one_of(found->second.size()));
  const int64_t count = kFewest + choices.one_of(static_cast<size_t>(kMost - kFewest + 1));
  std::vector<const Recording*> parts;
  std::vector<double> gaps;
  for (int64_t i = 0; i < count; ++i) {
    const auto chosen = static_cast<size_t>(choices.one_of(speaker->second.size()));
    parts.push_back(&recordings_[speaker->second[chosen]]);
    gaps.push_back(choices.between(kShortestGap, kLongestGap));
  }
  const Places places = places_of(parts, gaps);
  const auto lead = static_cast<int64_t>(choices.number() * static_cast<double>(places.spare));
  const auto filled = static_cast<size_t>(choices.one_of(places.begins.size()));

  Utterance utterance;
  utterance.speaker = speaker->first;
  utterance.audio = torch::zeros({kUtteranceLength});
  for (size_t i = 0; i < places.begins.size(); ++i) {
    utterance.audio.slice(0, lead + places.begins[i], lead + places.ends[i]).copy_(parts[i]->audio);
    utterance.text += (i > 0 ? " " : "") + digit_words()[static_cast<size_t>(parts[i]->digit)];
  }
  // Into the pauses on either side, but not beyond their middle.
  const int64_t before = filled > 0 ? (places.begins[filled] - places.ends[filled - 1]) / 2 : lead;
  const int64_t after = filled + 1 < places.begins.size()
                            ? (places.begins[filled + 1] - places.ends[filled]) / 2
                            : places.spare - lead;
  utterance.span_begin = lead + places.begins[filled] - std::min(before, kAround);
  utterance.span_end = lead + places.ends[filled] + std::min(after, kAround);
  utterance.said = parts[filled]->digit;
  return utterance;
}

std::vector<Recording> Speech::recordings(SpeechSplit split) const {
  std::vector<Recording> result;
  for (const auto& recording : recordings_) {
    if (split_of(recording) == split) result.push_back(recording);
  }
  return result;
}

std::vector<std::string> Speech::speakers() const {
  std::vector<std::string> names;
  for (const auto& entry : last_trained_) names.push_back(entry.first);
  return names;
}

torch::Tensor clip_of(const Recording& recording) {
  const int64_t length = recording.audio.size(0);
  return torch::constant_pad_nd(recording.audio, {kAround, kClipLength - kAround - length});
}

}  // namespace bespoke
