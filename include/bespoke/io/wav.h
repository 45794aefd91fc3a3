#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>

namespace bespoke {

// What a WAV file holds. Every build reads and writes 16-bit PCM; other encodings are read through
// libsndfile, and in a build without it the error names the package to install.
struct WavFile {
  torch::Tensor audio;  // float32 [channels, length]; [-1, 1] unless the file itself holds floats
  int sample_rate = 0;  // in Hz
};

// The bytes of a WAV file of floats in [-1, 1], [channels, length] or [length], as 16-bit PCM:
// clipped, rounded to nearest, NaN as silence. What read_wav found in a 16-bit file is written back
// bit for bit.
std::string encode_wav(const torch::Tensor& audio, int sample_rate);

// Writes the same to a file.
void write_wav(const std::filesystem::path& path, const torch::Tensor& audio, int sample_rate);

// Reads any encoding of the WAV format; a file that is broken or cut off is bad input.
WavFile read_wav(const std::filesystem::path& path);

// The same for a file in memory; `source` names it in messages.
WavFile decode_wav(std::string bytes, const std::string& source);

}  // namespace bespoke
