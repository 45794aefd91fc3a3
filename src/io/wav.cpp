#include "bespoke/io/wav.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"

#ifdef BESPOKE_WITH_SNDFILE

#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "bespoke/base/file.h"
#include "bespoke/io/decode_limit.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kMostChannels = 1024;        // libsndfile's limit
constexpr int64_t kMostBytes = 4'000'000'000;  // sizes in the format have 32 bits
constexpr uint32_t kUnknownLength = 0x7FFFF000;
constexpr int64_t kValuesAtOnce = 1 << 18;

// A file in memory, so that what is written reaches the disk whole or not at all.
struct Memory {
  std::string bytes;
  sf_count_t position = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};

Memory& memory(void* user) { return *static_cast<Memory*>(user); }

// The functions below are called by C code: no exception may leave them.

sf_count_t length_of(void* user) { return memory(user).size(); }

sf_count_t position_of(void* user) { return memory(user).position; }

sf_count_t seek(sf_count_t offset, int whence, void* user) {
  Memory& file = memory(user);
  const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.position : file.size();
  if (base + offset < 0) return -1;
  return file.position = base + offset;
}

sf_count_t read_some(void* target, sf_count_t count, void* user) {
  Memory& file = memory(user);
  const sf_count_t left = std::max<sf_count_t>(file.size() - file.position, 0);
  const sf_count_t size = std::clamp<sf_count_t>(count, 0, left);
  if (size > 0) std::memcpy(target, file.bytes.data() + file.position, static_cast<size_t>(size));
  file.position += size;
  return size;
}

// The header is written first and again at the end, over itself.
sf_count_t write_some(const void* source, sf_count_t count, void* user) try {
  Memory& file = memory(user);
  const sf_count_t end = file.position + count;
  if (end > file.size()) file.bytes.resize(static_cast<size_t>(end));
  std::memcpy(file.bytes.data() + file.position, source, static_cast<size_t>(count));
  file.position = end;
  return count;
} catch (const std::exception&) {
  return 0;
}

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using Handle = std::unique_ptr<SNDFILE, Close>;

Handle open(Memory& file, int mode, SF_INFO& info) {
  SF_VIRTUAL_IO calls = {length_of, seek, read_some, write_some, position_of};
  return Handle(sf_open_virtual(&calls, mode, &info, &file));
}

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
  const torch::Tensor scaled = audio.detach().to(torch::kCPU, torch::kDouble) * 32768;
  const torch::Tensor whole = scaled.round().clamp(-32768, 32767).nan_to_num();
  return whole.to(torch::kShort).reshape({channels, -1}).transpose(0, 1).contiguous();
}

// libsndfile takes what is there of a file that was cut off; its header says how long it was,
// though programs that write to a pipe leave some number from kUnknownLength on. One byte may be
// missing: many do not pad odd data, but count the padding.
void check_whole(const std::string& bytes, const std::string& source) {
  uint32_t promised = 0;
  if (bytes.size() < 8 || bytes.compare(0, 4, "RIFF") != 0) return;
  std::memcpy(&promised, bytes.data() + 4, sizeof(promised));
  if (promised < kUnknownLength && promised > bytes.size() - 8 + 1) {
    throw bad_input("{}: is cut off, {} of {} bytes are there; fetch or make the file again",
                    source, bytes.size(), uint64_t{promised} + 8);
  }
}

Handle open_wav(Memory& file, SF_INFO& info, const std::string& source) {
  Handle handle = open(file, SFM_READ, info);
  if (!handle) {
    throw bad_input("{}: not a sound file, or broken ({})", source, sf_strerror(nullptr));
  }
  const int format = info.format & SF_FORMAT_TYPEMASK;
  if (format != SF_FORMAT_WAV && format != SF_FORMAT_WAVEX) {
    throw bad_input("{}: a sound file, but not WAV; convert it to WAV", source);
  }
  return handle;
}

// Read until it ends: the number of frames the header promises is not trusted with memory.
std::vector<float> read_values(SNDFILE* handle, int channels, const std::string& source) {
  const sf_count_t wanted = kValuesAtOnce / channels;
  std::vector<float> values;
  sf_count_t found = wanted;
  while (found == wanted) {
    const size_t begin = values.size();
    values.resize(begin + static_cast<size_t>(wanted * channels));
    check_decoded_size(values.size() * sizeof(float), source);
    found = sf_readf_float(handle, values.data() + begin, wanted);
    values.resize(begin + static_cast<size_t>(found * channels));
  }
  if (sf_error(handle) != SF_ERR_NO_ERROR) {
    throw bad_input("{}: broken WAV file ({}); make the file again", source, sf_strerror(handle));
  }
  return values;
}

}  // namespace

std::string encode_wav(const torch::Tensor& audio, int sample_rate) {
  if (sample_rate < 1) throw usage_error("a sample rate is from 1 Hz, found {}", sample_rate);
  const torch::Tensor frames = to_frames(audio);
  SF_INFO info = {};
  info.samplerate = sample_rate;
  info.channels = static_cast<int>(frames.size(1));
  info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
  Memory file;
  Handle handle = open(file, SFM_WRITE, info);
  const bool written = handle && sf_writef_short(handle.get(), frames.data_ptr<int16_t>(),
                                                 frames.size(0)) == frames.size(0);
  // Closing writes the sizes into the header.
  if (!written || sf_close(handle.release()) != 0) {
    throw Error(ErrorKind::failed,
                fmt::format("cannot make a WAV file: {}", sf_strerror(handle.get())));
  }
  return std::move(file.bytes);
}

void write_wav(const std::filesystem::path& path, const torch::Tensor& audio, int sample_rate) {
  write_file_atomically(path, encode_wav(audio, sample_rate));
}

WavFile decode_wav(std::string bytes, const std::string& source) {
  Memory file;
  file.bytes = std::move(bytes);
  check_whole(file.bytes, source);
  SF_INFO info = {};
  const Handle handle = open_wav(file, info, source);
  const std::vector<float> values = read_values(handle.get(), info.channels, source);
  const torch::Tensor frames = torch::tensor(values).reshape({-1, info.channels});
  return {frames.transpose(0, 1).contiguous(), info.samplerate};
}

WavFile read_wav(const std::filesystem::path& path) {
  return decode_wav(read_file(path), path.string());
}

}  // namespace bespoke

#else

namespace bespoke {

static Error without_sndfile() {
  return Error(ErrorKind::failed,
               "this build cannot read or write WAV; install libsndfile1-dev and build again");
}

std::string encode_wav(const torch::Tensor&, int) { throw without_sndfile(); }

void write_wav(const std::filesystem::path&, const torch::Tensor&, int) { throw without_sndfile(); }

WavFile decode_wav(std::string, const std::string&) { throw without_sndfile(); }

WavFile read_wav(const std::filesystem::path&) { throw without_sndfile(); }

}  // namespace bespoke

#endif
