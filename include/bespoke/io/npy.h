#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>

namespace bespoke {

// NumPy's .npy format, versions 1 to 3: one array per file, little-endian, of type float16,
// float32, float64, int8 to int64, uint8 or bool.

// Reads the array as a contiguous tensor on the CPU, whatever order it was stored in. The header is
// checked against the file's size before any of it is trusted; what does not fit, other types and
// .npz archives are bad input.
torch::Tensor read_npy(const std::filesystem::path& path);

// The same for a file in memory; `source` names it in messages.
torch::Tensor parse_npy(const std::string& content, const std::string& source);

}  // namespace bespoke
