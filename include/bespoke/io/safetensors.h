#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace bespoke {

// A file in the safetensors format: named tensors any tool reads, without code in the file.
struct TensorFile {
  std::map<std::string, torch::Tensor> tensors;  // by name
  std::map<std::string, std::string> metadata;   // texts by key
};

// The bytes of such a file.
std::string safetensors_bytes(const TensorFile& file);
// Writes such a file, whole or not at all.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Reads the bytes of such a file. Checks the header against the file's size before it trusts any of
// it; errors begin with `source`.
TensorFile parse_safetensors(const std::string& content, const std::string& source);
// The same for a file.
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace bespoke
