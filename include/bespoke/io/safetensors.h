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

void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Checks the header against the file's size before it trusts any of it.
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace bespoke
