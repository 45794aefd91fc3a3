#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace bespoke {

// The safetensors format: named tensors any tool reads, without code in the file.
struct TensorFile {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

std::string safetensors_bytes(const TensorFile& file);
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Checks the header against the file's size before it trusts any of it; errors begin with `source`.
TensorFile parse_safetensors(const std::string& content, const std::string& source);
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace bespoke
