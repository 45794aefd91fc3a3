#include "other_wav.h"

#include <sndfile.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/io/decode_limit.h"

namespace bespoke::detail {

namespace {

constexpr int64_t kValuesAtOnce = 1 << 18;

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

sf_count_t write_nothing(const void*, sf_count_t, void*) { return 0; }

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using Handle = std::unique_ptr<SNDFILE, Close>;

Handle open_wav(Memory& file, SF_INFO& info, const std::string& source) {
  SF_VIRTUAL_IO calls = {length_of, seek, read_some, write_nothing, position_of};
  Handle handle(sf_open_virtual(&calls, SFM_READ, &info, &file));
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
  sf_count_t frames = wanted;
  while (frames == wanted) {
    const size_t begin = values.size();
    values.resize(begin + static_cast<size_t>(wanted * channels));
    check_decoded_size(values.size() * sizeof(float), source);
    frames = sf_readf_float(handle, values.data() + begin, wanted);
    values.resize(begin + static_cast<size_t>(frames * channels));
  }
  if (sf_error(handle) != SF_ERR_NO_ERROR) {
    throw bad_input("{}: broken WAV file ({}); make the file again", source, sf_strerror(handle));
  }
  return values;
}

}  // namespace

WavFile decode_other_wav(std::string bytes, const std::string& source) {
  Memory file;
  file.bytes = std::move(bytes);
  SF_INFO info = {};
  const Handle handle = open_wav(file, info, source);
  const std::vector<float> values = read_values(handle.get(), info.channels, source);
  const torch::Tensor frames = torch::tensor(values).reshape({-1, info.channels});
  return {frames.transpose(0, 1).contiguous(), info.samplerate};
}

}  // namespace bespoke::detail
