#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bespoke/io/safetensors.h"

namespace bespoke {

// The SHA-256 of a tensor's type, shape and bytes, to name it in a key.
std::string tensor_sha256(const torch::Tensor& tensor);

// A folder of tensors that take long to compute. Each set has a key, a JSON value that names all
// that decides what they are; the file is named after the key's SHA-256, and keeps the key itself
// and a checksum. Any file may be deleted at any time.
class TensorCache {
 public:
  // Keeps nothing and finds nothing.
  TensorCache() = default;
  // Makes the folder; throws where it cannot.
  explicit TensorCache(const std::filesystem::path& folder);

  bool is_on() const { return !folder_.empty(); }

  using Tensors = std::map<std::string, torch::Tensor>;
  // None where there is no such file, or it is broken, altered, or of another key.
  std::optional<Tensors> find(const nlohmann::json& key) const;
  // Replaces what is there, atomically. Throws where it cannot be written.
  void keep(const nlohmann::json& key, const Tensors& tensors) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;

  std::filesystem::path folder_;  // empty: off
};

}  // namespace bespoke
