#include "bespoke/io/wav.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sample_rate.h"
#include "other_wav.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kMostChannels = 1024;        // libsndfile's limit
constexpr int64_t kMostBytes = 4'000'000'000;  // sizes in the format have 32 bits

// The header of a chunk: four letters and a size. Of a file: the same, then "WAVE".
constexpr size_t kChunkHeader = 8, kFileHeader = 12;
constexpr uint32_t kFormatSize = 16;  // of the chunk "fmt " for PCM
constexpr uint16_t kPcm = 1, kBits = 16;

// [length, channels] in int16: frame after frame, as WAV has them.
torch::Tensor to_frames(const torch::Tensor& audio) {
  const bool shaped = audio.is_floating_point() && (audio.dim() == 1 || audio.dim() == 2);
  const int64_t channels = shaped && audio.dim() == 2 ? audio.size(0) : 1;
  if (!shaped || channels < 1 || channels > kMostChannels) {
    throw bad_input("sound is floats of shape [length] or [1 to {}, length], found {} of shape {}",
                    kMostChannels, torch::toString(audio.scalar_type()), audio.sizes().vec());
  }
  if (audio.numel() > kMostBytes / 2) {
    throw bad_input("a WAV file holds at most {} values, found {}; write it in parts",
                    kMostBytes / 2, audio.numel());
  }
  // All is done in place, on one copy: an hour of sound has gigabytes.
  torch::Tensor values =
      audio.detach().to(torch::kCPU, torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
  values.mul_(32768).round_().clamp_(-32768, 32767).nan_to_num_();
  return values.to(torch::kShort).reshape({channels, -1}).transpose(0, 1).contiguous();
}

template <typename Number>
void append(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename Number>
Number number_at(const std::string& bytes, size_t place) {
  Number value;
  std::memcpy(&value, bytes.data() + place, sizeof(value));
  return value;
}

// Programs that write to a pipe never learn the length, and leave 0 or a number at the end of what
// 31 or 32 bits hold.
bool is_known_length(uint32_t length) {
  constexpr uint32_t kMargin = 0x1000, kSigned = 0x80000000u, kUnsigned = 0xFFFFFFFFu;
  const bool near_signed = length < kSigned && length >= kSigned - kMargin;
  return length != 0 && !near_signed && length < kUnsigned - kMargin;
}

// A file that was cut off is read as far as it goes, unless its header says how long it was. One
// byte may be missing: many do not pad odd data, but count the padding.
void check_whole(const std::string& bytes, const std::string& source) {
  if (bytes.size() < kChunkHeader || bytes.compare(0, 4, "RIFF") != 0) return;
  const auto promised = number_at<uint32_t>(bytes, 4);
  if (is_known_length(promised) && promised > bytes.size() - kChunkHeader + 1) {
    throw bad_input("{}: is cut off, {} of {} bytes are there; fetch or make the file again",
                    source, bytes.size(), uint64_t{promised} + kChunkHeader);
  }
}

struct PcmFormat {
  int64_t channels;
  int sample_rate;
};

// The chunk "fmt ", whose content begins at `place`, if it is that of 16-bit PCM.
std::optional<PcmFormat> pcm_format(const std::string& bytes, size_t place) {
  if (bytes.size() < place + kFormatSize) return std::nullopt;
  const auto channels = number_at<uint16_t>(bytes, place + 2);
  const auto rate = number_at<uint32_t>(bytes, place + 4);
  const bool plain = number_at<uint16_t>(bytes, place) == kPcm && channels >= 1 &&
                     channels <= kMostChannels && rate <= std::numeric_limits<int>::max() &&
                     number_at<uint16_t>(bytes, place + 12) == channels * kBits / 8 &&
                     number_at<uint16_t>(bytes, place + 14) == kBits;
  if (!plain) return std::nullopt;
  return PcmFormat{channels, static_cast<int>(rate)};
}

// Not held to the limit of what files may unpack to: it has at most twice the file's bytes.
WavFile pcm_sound(const std::string& bytes, size_t begin, size_t size, const PcmFormat& format) {
  const int64_t length = static_cast<int64_t>(size / 2) / format.channels;
  const torch::Tensor frames = torch::empty({length, format.channels}, torch::kShort);
  if (length > 0) std::memcpy(frames.data_ptr(), bytes.data() + begin, frames.nbytes());
  torch::Tensor audio = frames.transpose(0, 1).contiguous().to(torch::kFloat);
  return {audio.div_(32768), format.sample_rate};
}

// A file of 16-bit PCM, the encoding that nearly all have; none where it is another, or broken.
std::optional<WavFile> decode_pcm(const std::string& bytes) {
  if (bytes.compare(0, 4, "RIFF") != 0 || bytes.size() < kFileHeader ||
      bytes.compare(8, 4, "WAVE") != 0) {
    return std::nullopt;
  }
  std::optional<PcmFormat> format;
  for (size_t place = kFileHeader; place + kChunkHeader <= bytes.size();) {
    const std::string name = bytes.substr(place, 4);
    const size_t promised = number_at<uint32_t>(bytes, place + 4);
    place += kChunkHeader;
    if (name == "fmt ") format = pcm_format(bytes, place);
    if (name == "data") {
      if (!format) return std::nullopt;
      const size_t there = bytes.size() - place;
      const bool has_length = is_known_length(static_cast<uint32_t>(promised));
      return pcm_sound(bytes, place, has_length ? std::min(promised, there) : there, *format);
    }
    place += promised + promised % 2;
  }
  return std::nullopt;
}

// The size of the chunk whose header begins at `place`, in the order of bytes that the file has.
size_t chunk_size(const std::string& bytes, size_t place) {
  const auto* size = reinterpret_cast<const unsigned char*>(bytes.data()) + place + 4;
  const bool little = bytes.compare(0, 4, "RIFX") != 0;
  size_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | size[little ? 3 - i : i];
  return value;
}

// Leaves out a chunk that claims more bytes than there are, unless it is the sound itself:
// libsndfile would go through all that it claims.
void drop_overlong_chunk(std::string& bytes) {
  if (bytes.size() < kFileHeader || bytes.compare(8, 4, "WAVE") != 0) return;
  for (size_t place = kFileHeader; place + kChunkHeader <= bytes.size();) {
    const size_t size = chunk_size(bytes, place), left = bytes.size() - place - kChunkHeader;
    if (size > left) {
      if (bytes.compare(place, 4, "data") != 0) bytes.resize(place);
      return;
    }
    place += kChunkHeader + size + size % 2;
  }
}

}  // namespace

std::string encode_wav(const torch::Tensor& audio, int sample_rate) {
  if (!is_sample_rate(sample_rate)) {
    throw usage_error("a sample rate is from {} to {} Hz, found {}", kLeastSampleRate,
                      kMostSampleRate, sample_rate);
  }
  const torch::Tensor frames = to_frames(audio);
  const auto size = static_cast<uint32_t>(frames.nbytes());
  const auto frame = static_cast<uint16_t>(frames.size(1) * kBits / 8);
  const auto rate = static_cast<uint32_t>(sample_rate);
  std::string bytes = "RIFF";
  append(bytes, static_cast<uint32_t>(4 + kChunkHeader + kFormatSize + kChunkHeader + size));
  bytes += "WAVEfmt ";
  append(bytes, kFormatSize);
  append(bytes, kPcm);
  append(bytes, static_cast<uint16_t>(frames.size(1)));
  append(bytes, rate);
  append(bytes, rate * frame);
  append(bytes, frame);
  append(bytes, kBits);
  bytes += "data";
  append(bytes, size);
  return bytes.append(static_cast<const char*>(frames.data_ptr()), frames.nbytes());
}

void write_wav(const std::filesystem::path& path, const torch::Tensor& audio, int sample_rate) {
  write_file_atomically(path, encode_wav(audio, sample_rate));
}

WavFile decode_wav(std::string bytes, const std::string& source) {
  check_whole(bytes, source);
  auto sound = decode_pcm(bytes);
  if (!sound) {
    drop_overlong_chunk(bytes);
    sound = decode_other_wav(std::move(bytes), source);
  }
  if (is_sample_rate(sound->sample_rate)) return *sound;
  throw bad_input(
      "{}: says that it has {} values a second, sounds have {} to {}; write its header "
      "anew",
      source, sound->sample_rate, kLeastSampleRate, kMostSampleRate);
}

WavFile read_wav(const std::filesystem::path& path) {
  return decode_wav(read_file(path), path.string());
}

}  // namespace bespoke
